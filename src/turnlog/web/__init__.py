"""The web: a JSON and SSE API and a page, both views of one log. Needs the extra `server`."""
