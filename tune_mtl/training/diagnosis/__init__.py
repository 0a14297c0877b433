"""What strategies differ in while they train: whether tasks' gradients conflict, and which dominate. It only looks."""
