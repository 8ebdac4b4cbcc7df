"""Who is who: certificates, what was revoked, and the files in which each party says what is its own."""
