/** Runs of plans: the stages of one with the reports of its gates. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { GATE_KINDS, madeBy, readRun } from '../../../store/queue/jobs/run-of-plan.ts';
import { documented } from '../openapi.ts';
import { readId } from '../query.ts';

const Job = Type.Object(
  {
    job_id: Type.String(),
    kind: Type.String(),
    state: Type.String(),
    made: Type.Union([Type.String(), Type.Null()], { description: 'what it made, in a few words' }),
    gate: Type.Optional(Type.Object({}, { additionalProperties: true, description: 'the report of a gate' })),
  },
  { additionalProperties: true },
);
const Run = Type.Object({ run: Job, stages: Type.Array(Job) });
type Params = { readonly Params: { readonly id: string } };

export function runRoutes(app: FastifyInstance, db: Db): void {
  app.get<Params>(
    '/v1/runs/:id',
    documented({
      summary: 'A run of a plan with its stages, in the order in which they were requested.',
      large: true,
      tag: 'reads',
      scope: 'read',
      answers: {
        200: { about: 'the run and its stages', schema: Run },
        404: { about: 'no run of a plan has this id' },
      },
    }),
    async ({ params }) => {
      const id = readId(params.id);
      const found = await readRun(db, id);
      if (found) return { run: shown(found.run), stages: found.stages.map(shown) };
      throw new TroupeError('not_found', `There is no run ${got(id)} of a plan; GET /v1/jobs?kind=plan lists them.`);
    },
  );
}

type Row = NonNullable<Awaited<ReturnType<typeof readRun>>>['run'];

/** Results of other stages may list thousands of episodes; of them only what was made is shown. */
const shown = ({ result, ...job }: Row) => ({
  ...job,
  made: madeBy(result),
  ...(GATE_KINDS.some((kind) => kind === job.kind) && result !== null ? { gate: result } : {}),
});
