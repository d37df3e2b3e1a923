"""The page: one partial a fragment, used by the page and by its stream."""
