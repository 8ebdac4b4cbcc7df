"""What people look at: figures, tables on the terminal, pages."""
