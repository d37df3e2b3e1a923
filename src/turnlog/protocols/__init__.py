"""Pure translators that the web, agents, recorders and file formats share."""
