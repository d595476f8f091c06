/** Schedules: when jobs are requested, the result of each tick, and changes by users. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { spanOf } from '../../../store/queue/schedules/backfill.ts';
import { ScheduleDefinition } from '../../../store/queue/schedules/definition.ts';
import { nextTimes } from '../../../store/queue/schedules/due.ts';
import { scheduleHistory } from '../../../store/queue/schedules/history.ts';
import type { Schedule } from '../../../store/queue/schedules/schedule-state.ts';
import {
  addSchedule,
  backfillSchedule,
  findSchedule,
  listSchedules,
  pauseSchedule,
  removeSchedule,
  resumeSchedule,
  runScheduleNow,
  timesOf,
} from '../../../store/queue/schedules/schedules.ts';
import { bodyOf, JSON_TYPE } from '../checked-body.ts';
import { documented } from '../openapi.ts';
import { readId } from '../query.ts';

const Shown = Type.Object(
  {
    name: Type.String(),
    definition: ScheduleDefinition,
    paused: Type.Union([Type.Object({ by: Type.String(), reason: Type.String(), at: Type.String() }), Type.Null()]),
    next: Type.Array(Type.String(), { description: 'its next five times, in UTC; none while it is paused' }),
  },
  { additionalProperties: true },
);
const Added = Type.Object({ name: Type.String(), definition: ScheduleDefinition }, { additionalProperties: false });
const Reason = Type.Object({ reason: Type.String({ minLength: 1, maxLength: 1000 }) }, { additionalProperties: false });
const Span = Type.Object(
  {
    from: Type.String({ description: 'a date, or a time in RFC 3339' }),
    to: Type.Optional(Type.String({ description: 'the same; now if left out' })),
  },
  { additionalProperties: false },
);
const AHEAD = 5;
const HISTORY = 50;

type Params = { readonly Params: { readonly name: string } };
type Posted = { readonly Body: Buffer | undefined };

export function scheduleRoutes(app: FastifyInstance, context: JobContext): void {
  const { db, now } = context;
  const shown = ({ name, definition, state }: Schedule) => ({
    name,
    definition,
    paused: state.paused,
    next: state.paused ? [] : nextTimes(definition, { name, ...timesOf(state), now: now().getTime() }, AHEAD),
  });

  app.get(
    '/v1/schedules',
    documented({
      summary: 'Every schedule with its next times, by name.',
      tag: 'schedules',
      scope: 'read',
      answers: { 200: { about: 'all of them', schema: Type.Object({ items: Type.Array(Shown) }) } },
    }),
    async () => ({ items: (await listSchedules(db)).map(shown) }),
  );

  app.get<Params>(
    '/v1/schedules/:name',
    documented({
      summary: 'One schedule with its next times, its last jobs and the ticks that it skipped.',
      tag: 'schedules',
      scope: 'read',
      answers: { 200: { about: 'the schedule; `runs` and `skipped` newest first', schema: Shown } },
    }),
    async ({ params }) => {
      const schedule = await findSchedule(db, readId(params.name));
      return { ...shown(schedule), ...(await scheduleHistory(db, schedule.name, HISTORY)) };
    },
  );

  app.post<Posted>(
    '/v1/schedules',
    documented({
      summary: 'Add a schedule.',
      tag: 'schedules',
      scope: 'train',
      body: { types: [...JSON_TYPE], schema: Added },
      answers: { 201: { about: 'added', schema: Shown } },
    }),
    async (request, reply) => {
      const { name, definition } = await bodyOf(request, Added);
      const { requireJob } = await import('../../../trainer/loop/jobs/checked-job.ts');
      requireJob(definition.job);
      return reply.code(201).send(shown(await addSchedule(context, name, definition, { by: whoAsks(request) })));
    },
  );

  app.post<Params & Posted>(
    '/v1/schedules/:name/pause',
    documented({
      summary: 'Start no job of the schedule until it is resumed.',
      tag: 'schedules',
      scope: 'train',
      body: { types: [...JSON_TYPE], schema: Reason },
      answers: { 200: { about: 'paused', schema: Shown } },
    }),
    async (request) => {
      const name = readId(request.params.name);
      const { reason } = await bodyOf(request, Reason);
      await pauseSchedule(context, name, { by: whoAsks(request), reason });
      return shown(await findSchedule(db, name));
    },
  );

  app.post<Params>(
    '/v1/schedules/:name/resume',
    documented({
      summary: 'Start jobs again, at the next tick.',
      tag: 'schedules',
      scope: 'train',
      answers: { 200: { about: 'resumed', schema: Shown } },
    }),
    async (request) => shown(await resumeSchedule(context, readId(request.params.name), { by: whoAsks(request) })),
  );

  app.post<Params>(
    '/v1/schedules/:name/run',
    documented({
      summary: 'Request the job of the schedule now.',
      tag: 'schedules',
      scope: 'train',
      answers: { 202: { about: 'requested', schema: Type.Object({ job_id: Type.String() }) } },
    }),
    async (request, reply) =>
      reply.code(202).send({ job_id: await runScheduleNow(context, readId(request.params.name)) }),
  );

  app.post<Params & Posted>(
    '/v1/schedules/:name/backfill',
    documented({
      summary: 'Run ticks that started no job, each on what had been recorded at its time, one after the other.',
      tag: 'schedules',
      scope: 'train',
      body: { types: [...JSON_TYPE], schema: Span },
      answers: {
        202: { about: 'the ticks, the oldest first', schema: Type.Object({ ticks: Type.Array(Type.String()) }) },
      },
    }),
    async (request, reply) => {
      const span = spanOf(await bodyOf(request, Span), now().getTime());
      const name = readId(request.params.name);
      return reply.code(202).send({ ticks: await backfillSchedule(context, name, span, { by: whoAsks(request) }) });
    },
  );

  app.delete<Params>(
    '/v1/schedules/:name',
    documented({
      summary: 'Remove a schedule; its jobs and their history stay.',
      tag: 'schedules',
      scope: 'train',
      answers: { 204: { about: 'removed' } },
    }),
    async (request, reply) => {
      await removeSchedule(context, readId(request.params.name), { by: whoAsks(request) });
      return reply.code(204).send();
    },
  );
}

const whoAsks = ({ identity }: FastifyRequest): string => identity?.key ?? 'http';
