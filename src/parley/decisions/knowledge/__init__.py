"""What is known before anybody is asked: a public sample, declared ranges, released statistics."""
