"""Numbers that owners release about their tables: counts, what columns hold, how much owners differ."""
