"""The jobs: list, plan, transform, publish; and the command line over them."""
