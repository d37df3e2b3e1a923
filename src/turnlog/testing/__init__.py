"""The kit for tests, shipped for the tests of others too. Nothing in turnlog imports it."""
