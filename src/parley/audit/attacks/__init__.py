"""What an attacker makes of what was released: records, members of a table, and lies of owners and learners."""
