"""What people run: tables, the cleaning workflow, the program, the review page and the server."""
