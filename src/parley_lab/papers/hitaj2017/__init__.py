"""Hitaj, Ateniese and Perez-Cruz (2017): an owner that generates images of another owner's class."""
