/** The source, in every event of this team and of its teachers: a task stated by both is the same fact. */
export const SOURCE = '/examples/coder-verifier';
