"""The studio: a page on this machine on which one plays with a collaboration. Its words and figures come from the
storeys below; nothing below imports it."""
