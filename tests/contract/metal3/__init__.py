"""metal3's pools on either server, with the product as a process."""
