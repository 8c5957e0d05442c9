"""What people look at: the terminal, the live page, reports."""
