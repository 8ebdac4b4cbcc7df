"""What terms can minimise: losses composed with prepared tables, each with its optimum and what it can do beside
gradients."""
