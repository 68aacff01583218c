"""The mathematics of the surrogate: no input or output, no clock, no logging, no global state.

Capitals and single letters in `core` mean what this table says. Sizes: n pool rows, k basis points,
d features, c classes, q candidates or steps. Derivations: docs/mathematics.md.

Symbols in the first column are the paper's, those with a star the default's (`method="understudy"`); a dash stands
where neither has one.

symbol     code        shape    meaning
---------  ----------  -------  -----------------------------------------------------------------------
X          features    (n, d)   what the pool's items look like
f^s(X)     F, probs    (n, c)   the learner's predictions at its last training (the anchor)
U, V       U, V        (k, d/c) basis points: k-means centres, draws from the flat Dirichlet
K_PP       K, L        (k, k)   covariance of the basis points, and its Cholesky factor K = L Lᵀ
k_i        -           (k,)     covariance of row i with the basis points
-          W, w        (n, k)   whitened rows, w_i = L⁻¹ k_i
λ_i        lam         (n,)     what the basis cannot say of row i: 1 - |w_i|²
σ²         noise       ()       variance of a label
λ_i + σ²   nu          (n,)     the same, not below a floor
Q⁻¹        R           (k, k)   posterior covariance of the whitened weights, R = (I + Σ_l w_l w_lᵀ/ν_l)⁻¹; the
                                default adds w̄ w̄ᵀ/bias within the brackets
-          M           (k, k)   Σ ω_j w_j w_jᵀ over the rows still to be understood; ω = 1 in the paper's method
-          B           (k, c)   posterior mean of the weights: the correction of row i is w_iᵀ B
μ_i        -           (n, c)   that correction; f^ = F + μ is `mean`
Σ_i        variance    (n,)     λ_i + g_i + σ²
-          g           (n,)     w_iᵀ R w_i, the part of the variance that labels can still remove
-          h           (n,)     w_iᵀ R M R w_i, the summed squared covariance with the pool, each row times its ω
u¹         influence   (n,)     c h_i / (ν_i + g_i)
u²         uncertainty (n,)     the learner's entropy, calibrated by the surrogate's
u³         lookahead   (n,)     expected fall of the pool's summed entropy
P(f^t)     accuracy    ()       share of the answers that the learner had right beforehand
-          p, m        (k,)     R w_l and R M p of the row l that is learnt
-          s, r        (n,)     W p (covariance of every row with l) and W m
-          d           ()       ν_l + g_l, the variance of an answer for row l
-          e           (c,)     innovation: one-hot label minus the surrogate's mean
-          Z, z        (c, n)   what the link turns into class weights q(z)
-          A, D        (n,)     Σ_c q and Σ_c q ln q, which give the entropy: ln A - D/A
u *        influence   (n,)     h_i / (ν_i + g_i): what an answer takes from the variance of what is undecided
v *        uncertainty (n,)     doubt: 1 - margin of f^_i, between the floor and 1
ω_i *      omega       (n,)     what is undecided: 1 - margin of F_i, not below the floor, set at each anchor
w̄ *        middle      (k,)     mean of the pool's whitened rows
-          bias        ()       variance of the predictions' mean error over the pool, known before any label
-          floor       ()       the least ω and v
-          explained   ()       share of the prior variance, mean |w_i|², that sets the width of the kernel
"""
