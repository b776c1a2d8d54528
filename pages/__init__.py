"""One straight-line script per page: widgets and layout only."""
