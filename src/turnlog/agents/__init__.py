"""Who speaks: the protocol of an agent and the agents themselves. Imports protocols and events, never the journal."""
