"""150 rows out of whole numbers, which R makes as well, without ties.

i <- 1:150
age <- (i * 37) %% 101 / 50 - 1; sex <- (i * 53) %% 11 %% 2
drug <- as.numeric((i * 29) %% 97 / 97 + 0.25 * sex < 0.55)
latent <- -log((i * 61) %% 151 / 151) / exp(0.8 * age - 0.5 * drug)
lost <- 3 * ((i * 83) %% 151) / 151
time <- pmin(latent, lost); code <- ifelse(latent > lost, 0, ifelse((i * 13) %% 7 < 4, 1, 2))
"""

import numpy as np

ROW = np.arange(1, 151)
AGE, SEX = ROW * 37 % 101 / 50 - 1, ROW * 53 % 11 % 2
DRUG = (ROW * 29 % 97 / 97 + 0.25 * SEX < 0.55).astype(float)
LATENT = -np.log(ROW * 61 % 151 / 151) / np.exp(0.8 * AGE - 0.5 * DRUG)
LOST = 3 * (ROW * 83 % 151) / 151
TIME = np.minimum(LATENT, LOST)
CODE = np.where(LATENT > LOST, 0, np.where(ROW * 13 % 7 < 4, 1, 2))
