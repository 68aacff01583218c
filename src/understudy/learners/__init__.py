"""What is trained: heads on features, a network on images, any scikit-learn classifier, a script of one's own."""
