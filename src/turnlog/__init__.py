"""A flight recorder for AI agents: what a person asked, what the agent did and what it answered, kept through any crash."""
