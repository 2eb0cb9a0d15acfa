"""What a server holds before anybody asks: made at the first start, repaired at the others."""
