"""The mathematics of the surrogate: no input or output, no clock, no logging, no global state.

Capitals and single letters in `core` mean what this table says. Sizes: n pool rows, k basis points,
d features, c classes, q candidates or steps. Derivations: docs/mathematics.md.

Symbols in the first column are the paper's; those with a star belong to the default (`method="understudy"`). A dash
means that neither has a symbol for it.

symbol     code        shape    meaning
---------  ----------  -------  -----------------------------------------------------------------------
X          features    (n, d)   features of the pool's items
f^s(X)     F, probs    (n, c)   the learner's predictions at its last training (the anchor)
U, V       U, V        (k, d/c) basis points: k-means centres, samples from the flat Dirichlet
K_PP       K, L        (k, k)   covariance of the basis points, and its Cholesky factor K = L Lᵀ
k_i        -           (k,)     covariance of row i with the basis points
-          W, w        (n, k)   whitened rows, w_i = L⁻¹ k_i
λ_i        lam         (n,)     variance of row i that the basis cannot explain: 1 - |w_i|²
σ²         noise       ()       noise variance of a label
λ_i + σ²   nu          (n,)     their sum, floored
Q⁻¹        R           (k, k)   posterior covariance of the whitened weights, R = (I + Σ_l w_l w_lᵀ/ν_l)⁻¹; the
                                default adds w̄ w̄ᵀ/bias inside the parentheses
-          M           (k, k)   Σ ω_j w_j w_jᵀ over the open (unlabelled) rows; ω = 1 in the paper's method
-          B           (k, c)   posterior mean of the weights: the correction of row i is w_iᵀ B
μ_i        -           (n, c)   that correction; f^ = F + μ is `mean`
Σ_i        variance    (n,)     λ_i + g_i + σ²
-          g           (n,)     w_iᵀ R w_i, the part of the variance that labels can still remove
-          h           (n,)     w_iᵀ R M R w_i, the sum of squared covariances with the pool, weighted by ω
u¹         influence   (n,)     c h_i / (ν_i + g_i)
u²         uncertainty (n,)     the learner's entropy, calibrated by the surrogate's
u³         lookahead   (n,)     expected decrease of the pool's summed entropy
P(f^t)     accuracy    ()       share of the labels that the learner had predicted correctly
-          p, m        (k,)     R w_l and R M p of the row l that is being labelled
-          s, r        (n,)     W p (covariance of every row with l) and W m
-          d           ()       ν_l + g_l, the predictive variance of a label for row l
-          e           (c,)     innovation: one-hot label minus the surrogate's mean
-          Z, z        (c, n)   inputs of the link, which maps them to class weights q(z)
-          A, D        (n,)     Σ_c q and Σ_c q ln q, which give the entropy: ln A - D/A
u *        influence   (n,)     h_i / (ν_i + g_i): how much a label reduces the variance of undecided rows
v *        uncertainty (n,)     doubt: 1 - margin of f^_i, clipped to [floor, 1]
ω_i *      omega       (n,)     weight of an undecided row: 1 - margin of F_i, at least the floor, set at each anchor
w̄ *        middle      (k,)     mean of the pool's whitened rows
-          bias        ()       prior variance of the predictions' mean error over the pool
-          floor       ()       lower bound of ω and v
-          explained   ()       explained share of the prior variance, mean |w_i|², that determines the kernel width
"""
