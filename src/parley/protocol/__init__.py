"""What is asked, when, and how answers become one."""
