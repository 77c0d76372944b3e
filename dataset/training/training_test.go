package training
