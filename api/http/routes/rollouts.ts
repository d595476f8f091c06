import type { FastifyInstance } from 'fastify';
import { type TObject, Type } from 'typebox';
import { sharedNotifications } from '../../../store/db/notifications.ts';
import { ATTEMPTS_ADDED } from '../../../store/loop/play/attempts.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { beat, finish, lease, workersRunner } from '../../../trainer/loop/play/leases.ts';
import type { Runner } from '../../../trainer/loop/play/runners.ts';
import { bodyOf, JSON_TYPE } from '../checked-body.ts';
import { documented, type RouteDoc } from '../openapi.ts';
import { untilGone } from '../until-gone.ts';

/** Attempts that a request leases or ends. */
const MOST_ATTEMPTS = 1000;
const Lease = Type.Object(
  {
    runner: Type.String({ description: 'a runner with workers: true' }),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: MOST_ATTEMPTS, description: 'attempts, at most; 1' })),
    wait_s: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 60,
        description: 'seconds to wait for the first attempt where none waits; 0',
      }),
    ),
  },
  { additionalProperties: false },
);
const held = {
  attempt_id: Type.String({ minLength: 1, maxLength: 512, pattern: '^[^\\u0000]*$' }),
  token: Type.Integer({ minimum: 0, description: 'of the lease' }),
};
const Beat = Type.Object(held, { additionalProperties: false });
const Report = Type.Object(
  {
    ...held,
    outcome: Type.Enum(['done', 'failed'], {
      description: 'failed: an infrastructure error; it has no reward and is retried',
    }),
    reward: Type.Optional(Type.Union([Type.Number(), Type.Null()])),
    answer: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    episode_outcome: Type.Optional(Type.Enum(['success', 'failure', 'unknown'])),
    reason: Type.Optional(Type.Union([Type.String({ maxLength: 4000 }), Type.Null()])),
  },
  { additionalProperties: false },
);
const Finish = Type.Object(
  { attempts: Type.Array(Report, { minItems: 1, maxItems: MOST_ATTEMPTS }) },
  { additionalProperties: false },
);
const Nullable = (schema: ReturnType<typeof Type.String>) => Type.Union([schema, Type.Null()]);
const Open = Type.Object({}, { additionalProperties: true });

const doc = (summary: string, schema: TObject, answer: RouteDoc['answers']): RouteDoc => ({
  summary,
  tag: 'rollouts',
  scope: 'rollout',
  body: { types: [...JSON_TYPE], schema },
  answers: answer,
});

export type RolloutRoutes = JobContext & { readonly runners: readonly Runner[]; readonly bodyLimit: number };

export function rolloutRoutes(app: FastifyInstance, { runners, bodyLimit, ...context }: RolloutRoutes): void {
  const { db } = context;
  const added = sharedNotifications(db, ATTEMPTS_ADDED);
  app.addHook('preClose', added.close);
  app.post(
    '/v1/rollouts/lease',
    documented(
      doc('Leases the next attempts of a runner for a worker.', Lease, {
        200: { about: 'the attempts; empty if none waits', schema: Type.Object({ attempts: Type.Array(Open) }) },
      }),
    ),
    async (request, reply) => {
      const { runner, count = 1, wait_s = 0 } = await bodyOf(request, Lease, bodyLimit);
      const of = workersRunner(runners, runner);
      const next = () => lease(context, of, count);
      if (wait_s === 0) return { attempts: await next() };
      const some = async () => {
        const attempts = await next();
        return attempts.length === 0 ? null : attempts;
      };
      return { attempts: (await added.until(some, { ms: wait_s * 1000, signal: untilGone(reply) })) ?? [] };
    },
  );
  app.post(
    '/v1/rollouts/heartbeat',
    documented(
      doc('A sign of life of the worker that holds an attempt.', Beat, {
        200: {
          about: 'until when it is held, in seconds',
          schema: Type.Object({ lease_s: Type.Number(), seconds_left: Type.Number() }),
        },
      }),
    ),
    async (request) => beat(context, { ...(await bodyOf(request, Beat, bodyLimit)), runners }),
  );
  app.post(
    '/v1/rollouts/finish',
    documented(
      doc('Ends attempts; late and duplicate reports are stored and acknowledged.', Finish, {
        200: {
          about: 'for each whether the report counted, and how the attempt ended',
          schema: Type.Object({
            attempts: Type.Array(
              Type.Object({
                attempt_id: Type.String(),
                state: Type.Enum(['accepted', 'late', 'duplicate']),
                outcome: Type.Enum(['done', 'failed']),
                why: Nullable(Type.String()),
              }),
            ),
          }),
        },
      }),
    ),
    async (request) => ({ attempts: await finish(context, (await bodyOf(request, Finish, bodyLimit)).attempts) }),
  );
}
