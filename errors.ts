/**
 * Every error code of Troupe, on one page: the HTTP status it answers with, the exit code the command line ends with,
 * and whether sending the same thing again can help. A refusal of one record is not an error but data: see `Refusal`.
 */

type ErrorFacts = { readonly status: number; readonly exit: number; readonly retriable: boolean };

/** Exit codes of the command line: 0 done, 1 failed, 2 usage, 3 some input refused, 4 auth, 5 unreachable, 7 gate not met. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  refused: 3,
  auth: 4,
  unreachable: 5,
  gate: 7,
  interrupted: 130,
} as const;

const facts = (status: number, exit: number, retriable = false): ErrorFacts => ({ status, exit, retriable });

export const ERRORS = {
  usage: facts(400, EXIT.usage),
  config_invalid: facts(500, EXIT.usage),
  not_found: facts(404, EXIT.failed),
  conflict: facts(409, EXIT.failed),
  input_refused: facts(422, EXIT.refused),
  context_length_exceeded: facts(400, EXIT.refused),
  too_large: facts(413, EXIT.refused),
  unsupported_media: facts(415, EXIT.refused),
  unauthorized: facts(401, EXIT.auth),
  scope_missing: facts(403, EXIT.auth),
  forbidden_origin: facts(403, EXIT.auth),
  unreachable: facts(503, EXIT.unreachable, true),
  upstream_failed: facts(502, EXIT.unreachable, true),
  upstream_timeout: facts(504, EXIT.unreachable, true),
  busy: facts(503, EXIT.failed, true),
  disk_full: facts(503, EXIT.failed, true),
  home_unwritable: facts(500, EXIT.failed),
  port_taken: facts(500, EXIT.failed),
  schema_newer: facts(500, EXIT.failed),
  schema_missing: facts(500, EXIT.failed),
  platform_unsupported: facts(500, EXIT.failed),
  sql_refused: facts(400, EXIT.failed),
  sql_failed: facts(400, EXIT.failed),
  sql_timeout: facts(504, EXIT.failed),
  method_unknown: facts(404, EXIT.usage),
  method_input: facts(422, EXIT.failed),
  recipe_invalid: facts(422, EXIT.usage),
  plan_invalid: facts(422, EXIT.usage),
  plan_blocked: facts(409, EXIT.failed),
  dataset_damaged: facts(500, EXIT.failed),
  dataset_empty: facts(422, EXIT.failed),
  model_unsupported: facts(422, EXIT.failed),
  checkpoint_damaged: facts(500, EXIT.failed),
  training_failed: facts(500, EXIT.failed),
  log_truncated: facts(500, EXIT.failed),
  log_repartitioned: facts(503, EXIT.failed),
  log_replaced: facts(503, EXIT.failed),
  fenced: facts(409, EXIT.failed),
  diverged: facts(422, EXIT.failed),
  interrupted: facts(503, EXIT.interrupted, true),
  internal: facts(500, EXIT.failed),
} as const satisfies Record<string, ErrorFacts>;

export type ErrorCode = keyof typeof ERRORS;

/** What names an error to a machine: where it is, what was expected, what came, what to do about it. */
export type ErrorDetail = {
  readonly expected?: string;
  readonly got?: string;
  readonly hint?: string;
  readonly field?: string;
  readonly cause?: unknown;
};

/** An error with a stable code. The sentence names what was expected, what came and what to do. */
export class TroupeError extends Error {
  readonly code: ErrorCode;
  readonly detail: ErrorDetail;

  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = 'TroupeError';
    this.code = code;
    this.detail = detail;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get exit(): number {
    return ERRORS[this.code].exit;
  }

  get retriable(): boolean {
    return ERRORS[this.code].retriable;
  }
}

/**
 * Why one record was not taken. A refusal never stops the records beside it.
 * `field` is a path such as `data.choices[0].logprobs`; `line` counts from 1 and is null where the source has no lines.
 */
export type Refusal = {
  readonly code: RefusalCode;
  readonly field: string;
  readonly expected: string;
  readonly got: string;
};

export type RefusalCode =
  | 'bad_json'
  | 'bad_shape'
  | 'bad_type'
  | 'bad_identifier'
  | 'bad_number'
  | 'bad_time'
  | 'too_deep'
  | 'too_large'
  | 'unknown_event'
  | 'unknown_version'
  | 'unknown_format'
  | 'id_conflict'
  | 'bad_reference'
  | 'erased'
  | 'pruned';

/** A number with what it counts: `1 hour`, `2 hours`. */
export const countText = (n: number, name: string): string => `${n} ${name}${n === 1 ? '' : 's'}`;

/** The error for a value that does not fit: where it stands, what was expected there, what came. */
export function misfit(
  code: ErrorCode,
  field: string,
  expected: string,
  value: unknown,
  came = got(value),
): TroupeError {
  return new TroupeError(code, `${field} should be ${expected}, but it is ${came}.`, { field, expected, got: came });
}

const WHY_UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  EACCES: 'this user may not read it',
};

/** The error for a file that someone named and that cannot be read. `what` is how the sentence begins: `The plan nightly.yaml`. */
export function unreadable(what: string, cause: unknown): TroupeError {
  const { code, message } = cause as NodeJS.ErrnoException;
  return new TroupeError('not_found', `${what} cannot be read: ${WHY_UNREADABLE[code ?? ''] ?? message}.`, { cause });
}

/** A short, safe rendering of a value for an error message: at most `limit` characters, never a whole document. */
export function got(value: unknown, limit = 80): string {
  if (value === undefined) return 'nothing';
  let text: string;
  try {
    text = typeof value === 'string' ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    text = `a ${typeof value} that cannot be written as JSON`;
  }
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}

/** The error of a setting that does not fit, by its path, what was expected and what came. */
export const wrongSetting = (field: string, expected: string, value: unknown): TroupeError =>
  misfit('config_invalid', field, expected, value);
