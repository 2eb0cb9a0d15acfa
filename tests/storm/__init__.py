"""A storm: every process is killed or frozen in its turn while people use three tenants."""
