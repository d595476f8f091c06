/** `troupe demo`: runs the loop of the example in a project of its own, and prints its plans, its progress and what came out. */
import { EXIT } from '../../errors.ts';
import { firstOf, query } from '../../store/db/query.ts';
import { type Flags, untilInterrupted } from '../command.ts';
import { type Context, withContext } from '../context.ts';
import { answer, progressBar, remark, say } from '../output.ts';
import { type RoleSettings, roleSettings } from '../processes/children.ts';
import { runDemo } from './demo-loop.ts';
import { demoReport } from './demo-report.ts';

export async function demo(flags: Flags): Promise<number> {
  const project = flags.project === undefined ? await freeProject(flags) : String(flags.project);
  const run = async (context: Context) => {
    const bar = progressBar('Demo', flags);
    say(`The demo runs in project ${project} of ${context.home.root}.`);
    const result = await runDemo(context, {
      seed: Number(flags.seed),
      rounds: Number(flags.rounds),
      bar,
      onPlan: (yaml) => remark(flags, `\n${yaml}`),
      ...(flags.scale === undefined ? {} : { scale: Number(flags.scale) }),
      settings: withoutFirstKey(roleSettings(context.config)),
      signal: untilInterrupted(),
    }).finally(bar.stop);
    answer(flags, result, demoReport(result, { home: context.config.home, project }));
    return EXIT.done;
  };
  return withContext({ ...flags, project }, run, { create: true });
}

/** The demo's team is started without a key, on this machine alone. */
const withoutFirstKey = ({ args, env }: RoleSettings): RoleSettings => ({
  args,
  env: { ...env, TROUPE_API_KEY: '', TROUPE_LOOPBACK: 'open' },
});

/** The first of demo, demo_2, demo_3 … that holds nothing: a demo never mixes with another, and never removes anything. */
async function freeProject(flags: Readonly<Record<string, unknown>>): Promise<string> {
  for (let n = 1; ; n++) {
    const project = n === 1 ? 'demo' : `demo_${n}`;
    const holdsNothing = async ({ db }: Context) =>
      (await firstOf(db, query.selectFrom('troupe.events').select('id').limit(1))) === undefined;
    const empty = await withContext({ ...flags, project }, holdsNothing, { create: true });
    if (empty) return project;
  }
}
