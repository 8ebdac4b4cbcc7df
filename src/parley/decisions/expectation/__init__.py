"""What training by terms gives on average, by moments or by runs on a pilot."""
