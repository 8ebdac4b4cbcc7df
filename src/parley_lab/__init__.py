"""The laboratory: the source documents again, and studies that no command of the product needs. It imports `parley`,
never the other way; `parley reproduce` finds it by its entry point."""
