"""Z: Zawacki, "Studies in Differential Privacy and Federated Learning", a dissertation of 2024."""
