"""Values out of line: chunks gathered in the walk, put together for the rows that point to them."""
