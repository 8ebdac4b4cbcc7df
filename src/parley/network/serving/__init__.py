"""The owner's daemon: it answers questions that learners bring, and executes nothing it is sent."""
