"""The objectives that terms can name: losses composed with prepared tables."""
