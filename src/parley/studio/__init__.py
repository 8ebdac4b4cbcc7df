"""The studio: a page on this machine for trying out a collaboration. Nothing below imports it."""
