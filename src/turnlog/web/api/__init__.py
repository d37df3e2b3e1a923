"""The JSON API: routes over the log, and the document that describes them."""
