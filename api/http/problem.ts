/** Every error of the API as problem+json (RFC 9457) with a stable code, the expected and the actual value, and a hint. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ERRORS, type ErrorCode, type Refusal, type RefusalCode, TroupeError } from '../../errors.ts';
import { isFullDisk, isTransient } from '../../store/db/faults.ts';

export type Problem = {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: ErrorCode | RefusalCode;
  readonly detail: string;
  readonly field?: string;
  readonly expected?: string;
  readonly got?: string;
  readonly hint?: string;
  readonly request_id: string;
};

/** A request whose body cannot be used at all: its refusal, as the response to the whole request. */
export class BodyRefused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(`The body should be ${refusal.expected}; it is ${refusal.got}.`);
    this.name = 'BodyRefused';
    this.refusal = refusal;
  }
}

/** The log message of an unexpected error. */
export const UNEXPECTED = 'A request failed inside Troupe.';
/** The pattern, never the path: a path may hold data that must be erasable. */
export const routeOf = ({ routeOptions }: FastifyRequest): string => routeOptions.url ?? 'unknown';

/** Seconds after which a client may retry when the database or the log could not be reached. */
const RETRY_AFTER_S = 1;

/** The problem document of an error. Unexpected errors give no internal details. */
export function problemOf(error: unknown, requestId: string): Problem {
  if (error instanceof BodyRefused) {
    const { code, field, expected, got } = error.refusal;
    const status = code === 'too_large' ? 413 : 400;
    return {
      ...shape(code, status, error.message, requestId),
      ...(field === '' ? {} : { field }),
      expected,
      got,
    };
  }
  const known = error instanceof TroupeError ? error : fromFramework(error);
  const { expected, got, hint, field } = known.detail;
  return {
    ...shape(known.code, known.status, known.message, requestId),
    ...(field === undefined ? {} : { field }),
    ...(expected === undefined ? {} : { expected }),
    ...(got === undefined ? {} : { got }),
    ...(hint === undefined ? {} : { hint }),
  };
}

const shape = (code: ErrorCode | RefusalCode, status: number, detail: string, requestId: string) => ({
  type: `urn:troupe:error:${code}`,
  title: code.replaceAll('_', ' '),
  status,
  code,
  detail,
  request_id: requestId,
});

/** Errors of the HTTP framework keep their meaning; anything else is `internal`. */
function fromFramework(error: unknown): TroupeError {
  const { statusCode, message = '' } = (error ?? {}) as { readonly statusCode?: number; readonly message?: string };
  if (statusCode === 413) return new TroupeError('too_large', 'The body is larger than this server takes.');
  if (statusCode === 415) return new TroupeError('unsupported_media', 'The media type of the body cannot be read.');
  if (isFullDisk(error))
    return new TroupeError(
      'disk_full',
      'The disk is full; nothing of this was written. Try again once there is space.',
    );
  if (isTransient(error))
    return new TroupeError('unreachable', 'The database cannot be reached; try again in a moment.');
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return new TroupeError('usage', message);
  return new TroupeError(
    'internal',
    'Something went wrong inside Troupe; its log has the cause under this request id.',
  );
}

/** Failures that an operator has to fix before requests are served again. */
const OUTAGES: ReadonlySet<string> = new Set(['unreachable', 'disk_full', 'log_replaced', 'log_repartitioned']);
/** When each outage was last logged, by code: there may be thousands of refused requests. */
const lastLogged = new Map<string, number>();
const LOG_INTERVAL_MS = 60_000;

/** Logs why requests are refused during an outage, once a minute for each code. */
function logOutage({ code, detail }: Problem, request: FastifyRequest): void {
  const now = performance.now();
  if (now - (lastLogged.get(code) ?? Number.NEGATIVE_INFINITY) < LOG_INTERVAL_MS) return;
  lastLogged.set(code, now);
  request.log.warn({ route: routeOf(request) }, `Requests are answered with 503 ${code}: ${detail}`);
}

/** Sends the problem; `retriable` ones have Retry-After. */
export function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = problemOf(error, request.id);
  if (problem.code === 'internal')
    request.log.error({ err: error, method: request.method, route: routeOf(request) }, UNEXPECTED);
  if (OUTAGES.has(problem.code)) logOutage(problem, request);
  if (isRetriable(problem.code)) reply.header('retry-after', RETRY_AFTER_S);
  const path = pathOf(request.url);
  const isAnthropic = /\/messages(?:\/count_tokens)?$/.test(path);
  const isOpenai = /\/(?:(?:chat\/)?completions|responses|embeddings|models)$/.test(path);
  const body = isAnthropic ? forAnthropic(problem) : isOpenai ? forOpenai(problem) : problem;
  return reply
    .code(problem.status)
    .header('content-type', `application/${isAnthropic ? 'json' : 'problem+json'}; charset=utf-8`)
    .send(JSON.stringify(body));
}

/** Clients of both APIs show the message alone, so it ends with what to do. */
const messageOf = ({ detail, hint }: Problem): string =>
  hint && !detail.includes(hint) ? `${detail} ${hint}` : detail;

/** Clients of the OpenAI API read the message under `error`. */
const forOpenai = (problem: Problem) => {
  const { code, field } = problem;
  return { ...problem, error: { message: messageOf(problem), type: code, param: field ?? null, code } };
};

/** Names of errors in Anthropic's API, by status. */
const ANTHROPIC: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** Clients of Anthropic's API need `type: "error"` beside `error`, which is why this is not problem+json. */
const forAnthropic = (problem: Problem) => {
  const { status } = problem;
  const type = ANTHROPIC[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { ...problem, type: 'error', error: { type, message: messageOf(problem) } };
};

const isRetriable = (code: string): boolean => Object.hasOwn(ERRORS, code) && ERRORS[code as ErrorCode].retriable;
const pathOf = (url: string): string => url.split('?', 1)[0]!;
