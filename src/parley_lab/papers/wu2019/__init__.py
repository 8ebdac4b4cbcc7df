"""W: Wu, Farokhi, Smith and Kaafar, "The Value of Collaboration in Convex Machine Learning with Differential
Privacy"."""
