"""How items become bytes and bytes become items. Pure: bytes in, items or one error out."""
