"""What users feed models with: arrays, archives of arrays and images, as samples of a model's inputs."""
