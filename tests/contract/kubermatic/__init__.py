"""The integration with KKP, by the whole product, on either server."""
