"""How fast bukva is, beside the plain way to do the same: python -m bench. No test times anything."""
