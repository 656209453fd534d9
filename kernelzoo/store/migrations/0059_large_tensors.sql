-- Kernels of tensors that are larger than agents hold are compiled and served, and not lent.

ALTER TABLE workload ADD COLUMN measured boolean NOT NULL DEFAULT true;
COMMENT ON COLUMN workload.measured IS
    'Whether agents are lent its kernels. False for one whose tensors are larger than they hold: pages '
    'are given the defaults.';
