"""What it means: pure functions from events to views. Imports events; reads no clock, disk or network."""
