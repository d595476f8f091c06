/** Schedules: add, list, show, pause, resume, run now, dry run, notify, remove. */
import { type Command, Option } from 'commander';
import { EXIT, got, TroupeError } from '../../errors.ts';
import type { ScheduleDefinition } from '../../store/queue/schedules/definition.ts';
import { budgeted } from '../budgets.ts';
import { type Flags, projectCommand, who, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { answer, print, printJson, say, table } from '../output.ts';
import { withSet } from '../plan-values.ts';
import { definitionOf } from '../schedule-definition.ts';
import { describe, timesText, whenText } from '../schedule-text.ts';

/** Characters of the spec of a job that `dry-run` prints: a plan may hold thousands of tasks. */
const SPEC_SHOWN = 600;
/** Times that `show` looks ahead. */
const AHEAD = 5;

export function addTo(program: Command): void {
  const schedule = program
    .command('schedule')
    .addHelpText(
      'after',
      '\nThe scheduler runs in `troupe run work`, which `troupe up` starts.\n\nExamples:\n  troupe schedule add nightly --cron "0 3 * * *" --zone Europe/Berlin --job judge.yaml\n  troupe schedule show nightly\n  troupe schedule pause nightly --reason "labels are being checked"',
    );
  addCommand(schedule);
  listCommand(schedule);
  showCommand(schedule);
  pauseCommand(schedule);
  resumeCommand(schedule);
  runCommand(schedule);
  backfillCommand(schedule);
  dryRunCommand(schedule);
  notifyCommand(schedule);
  removeCommand(schedule);
}

function addCommand(schedule: Command): void {
  projectCommand(
    withSet(schedule.command('add'))
      .description('add a schedule that requests jobs')
      .argument('<name>', 'its name')
      .option('--cron <expression>', 'times: minute, hour, day of month, month and day of week')
      .option('--every <time>', 'interval, such as 6h')
      .option('--zone <name>', 'time zone of --cron and --hours', 'UTC')
      .option('--plan <file>', 'plan to run; its content is stored')
      .option('--job <file>', 'job to request: YAML or JSON with `kind` and `spec`; its content is stored')
      .addOption(
        new Option('--overlap <policy>', 'at a tick while the last job still runs: skip the tick, or queue another job')
          .choices(['skip', 'queue'])
          .default('skip'),
      )
      .option(
        '--catch-up <time>',
        'maximum age of a missed tick that still starts a job; of several only the last',
        '1d',
      )
      .option('--jitter <time>', 'maximum delay of a tick; the same tick always has the same delay', '0s')
      .option(
        '--when <condition>',
        'start a job at a tick only if this condition holds, such as "new episodes >= 500", "reward fell 0.05" or "drift of families > 0.2"',
      )
      .option(
        '--pause-after-failed <n>',
        'pause after N failed jobs in a row; 0: never',
        wholeNumber('pause-after-failed'),
        3,
      )
      .option(
        '--pause-after-refused <n>',
        'pause after N jobs in a row whose gate refused the candidates; 0: never',
        wholeNumber('pause-after-refused'),
        2,
      )
      .option(
        '--pause-after-rolled-back <n>',
        'pause after N jobs in a row whose release was rolled back; 0: never',
        wholeNumber('pause-after-rolled-back'),
        1,
      )
      .option(
        '--pause-after-over-budget <n>',
        'pause after N jobs in a row that the budget of their plan ended; 0: never',
        wholeNumber('pause-after-over-budget'),
        0,
      )
      .option(
        '--budget-per-day <name=value>',
        'once it is used up, no job starts before midnight of the zone: tokens=N, seconds=N or usd=N; repeatable',
        budgeted,
        {},
      )
      .option('--hours <from-to>', 'start jobs only in these hours, such as 22:00-06:00')
      .option('--dry-run', 'check the schedule, print it with its next times, and add nothing')
      .option('--by <who>', 'who adds it (default: the user of this machine)')
      .addHelpText(
        'after',
        '\nExample job.yaml:\n  kind: freeze\n  spec:\n    recipe: {name: good, where: {field: reward, op: ">=", value: 1}, unit: step}\n\nExamples:\n  troupe schedule add nightly --cron "0 3 * * *" --zone Europe/Berlin --plan plan.yaml\n  troupe schedule add seeds --every 1d --plan plan.yaml --set seed=2\n  troupe schedule add often --every 6h --jitter 10m --job job.yaml\n  troupe schedule add late --cron "0 * * * *" --hours 22:00-06:00 --job job.yaml --dry-run',
      ),
    async (context, [name], flags) => {
      const [{ addSchedule, firstTimes }, { checkedDefinition, requireName }] = await loaded();
      const definition = await definitionOf(flags);
      const at = context.now();
      const times = (made: ScheduleDefinition) => firstTimes(name!, made, at, AHEAD);
      if (flags.dryRun) {
        requireName(name!);
        const made = checkedDefinition(definition, at.getTime());
        if (flags.json) printJson({ name, definition: made, next: times(made) });
        else print(`${describe(made)}\n${timesText(made, times(made))}\nNothing was added.`);
        return;
      }
      const added = await addSchedule({ ...context, now: () => at }, name!, definition, { by: who(flags) });
      if (flags.json) printJson({ name, definition: added.definition, next: times(added.definition) });
      else
        print(`Added: ${name}\n${describe(added.definition)}\n${timesText(added.definition, times(added.definition))}`);
      const { when } = added.definition;
      if (!flags.json && when !== undefined && 'new_episodes' in when && context.config.judge === null)
        print(
          'Episodes count once they are judged, and the setting judge is empty: set it, or run `troupe judge` yourself.',
        );
    },
  );
}

function listCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('list')
      .description('list schedules')
      .addHelpText('after', '\nExample:\n  troupe schedule list --json'),
    async ({ db, now, config }, _, flags) => {
      const [{ listSchedules, timesOf }, , { nextTimes }] = await loaded();
      const { receiverStates } = await import('../../store/queue/notify/delivery.ts');
      const at = now().getTime();
      const schedules = (await listSchedules(db)).map(({ name, definition, state }) => ({
        name,
        when: whenText(definition),
        job: definition.job.kind,
        paused: state.paused,
        next: state.paused ? null : (nextTimes(definition, { name, ...timesOf(state), now: at }, 1)[0] ?? null),
      }));
      if (flags.json) printJson({ schedules });
      else if (schedules.length === 0) print('No schedules yet.');
      else
        print(
          table(
            ['schedule', 'when', 'job', 'next', 'paused'],
            schedules.map((one) => [one.name, one.when, one.job, one.next, one.paused?.reason]),
          ),
        );
      if (!flags.json)
        for (const { name, failing } of await receiverStates(db))
          if (failing !== null && Object.hasOwn(config.notify ?? {}, name))
            say(`Receiver ${name} was not notified since ${failing.since}: ${failing.error}`);
    },
  );
}

function showCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('show')
      .description('show a schedule: its next times, its last jobs, and the ticks it skipped with their reasons')
      .argument('<name>', 'the schedule')
      .option('--limit <n>', 'maximum number of jobs and of skipped ticks', '10')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe schedule show nightly\n  troupe schedule show nightly --limit 50 --json',
      ),
    async ({ db, now, catchUp }, [name], flags) => {
      const [{ findSchedule, timesOf }, , { nextTimes }] = await loaded();
      const { scheduleHistory } = await import('../../store/queue/schedules/history.ts');
      const limit = Number(flags.limit);
      if (!Number.isSafeInteger(limit) || limit < 1)
        throw new TroupeError('usage', `--limit should be a whole number from 1, but it is ${got(flags.limit)}.`);
      // Skipped ticks that came by another log are read where they are archived.
      await catchUp();
      const { definition, state } = await findSchedule(db, name!);
      const next = state.paused
        ? []
        : nextTimes(definition, { name: name!, ...timesOf(state), now: now().getTime() }, AHEAD);
      const history = await scheduleHistory(db, name!, limit);
      const { backfill = [] } = state;
      if (flags.json) {
        const { since, last, paused, checked = null } = state;
        printJson({ name, definition, since, decided_until: last, paused, checked, backfill, next, ...history });
        return;
      }
      print(describe(definition));
      if (state.paused) print(`Paused at ${state.paused.at} by ${state.paused.by}: ${state.paused.reason}`);
      else print(timesText(definition, next));
      if (state.checked)
        print(
          state.checked.new_episodes === null
            ? `Condition at ${state.checked.at}: ${state.checked.detail}`
            : `New judged episodes at ${state.checked.at}: ${state.checked.new_episodes}`,
        );
      if (backfill.length > 0) print(`Backfill, still to start: ${backfill.join(' ')}`);
      if (history.runs.length > 0)
        print(
          `\n${table(
            ['job', 'state', 'outcome', 'as of', 'error'],
            history.runs.map(({ job_id, state, outcome, as_of, error }) => [
              ...[job_id, state, outcome, as_of],
              (error as { message?: string } | null)?.message ?? error,
            ]),
          )}`,
        );
      if (history.skipped.length > 0)
        print(
          `\n${table(
            ['skipped', 'until', 'ticks', 'reason', 'detail'],
            history.skipped.map((one) => [one.due_at, one.until, one.count, one.reason, one.detail]),
          )}`,
        );
    },
  );
}

function pauseCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('pause')
      .description('start no jobs until the schedule is resumed; a running job continues')
      .argument('<name>', 'the schedule')
      .requiredOption('--reason <text>', 'reason to record')
      .option('--by <who>', 'who does it (default: the user of this machine)')
      .addHelpText('after', '\nExample:\n  troupe schedule pause nightly --reason "labels are being checked"'),
    async (context, [name], flags) => {
      const [{ pauseSchedule }] = await loaded();
      const pause = { by: who(flags), reason: String(flags.reason) };
      await pauseSchedule(context, name!, pause);
      answer(flags, { name, paused: pause }, `Paused: ${name}. Resume it with: troupe schedule resume ${name}`);
    },
  );
}

function resumeCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('resume')
      .description('start jobs again at the next tick; ticks during the pause are skipped')
      .argument('<name>', 'the schedule')
      .option('--reason <text>', 'reason to record')
      .option('--by <who>', 'who does it (default: the user of this machine)')
      .addHelpText('after', '\nExample:\n  troupe schedule resume nightly'),
    async (context, [name], flags) => {
      const [{ resumeSchedule, timesOf }, , { nextTimes }] = await loaded();
      const reason = flags.reason === undefined ? null : String(flags.reason);
      const { definition, state } = await resumeSchedule(context, name!, { by: who(flags), reason });
      const next = nextTimes(definition, { name: name!, ...timesOf(state), now: context.now().getTime() }, AHEAD);
      answer(flags, { name, paused: null, next }, `Resumed: ${name}\n${timesText(definition, next)}`);
    },
  );
}

function runCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('run')
      .description('request the job of a schedule now, regardless of its times, its hours and its pause')
      .argument('<name>', 'the schedule')
      .addHelpText('after', '\nExample:\n  troupe schedule run nightly'),
    async (context, [name], flags) => {
      const [{ runScheduleNow }] = await loaded();
      const job_id = await runScheduleNow(context, name!);
      answer(flags, { name, job_id }, `Requested: ${job_id}`);
    },
  );
}

function backfillCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('backfill')
      .description('run ticks that started no job, each on what had been recorded at its time')
      .argument('<name>', 'the schedule')
      .option('--from <time>', 'first time, such as 2026-05-01 or 2026-05-01T03:00:00Z')
      .option('--to <time>', 'last time (default: now)')
      .option('--dry-run', 'list the ticks and what had been recorded by then, and start nothing')
      .option('--end', 'forget the ticks whose jobs have not started')
      .option('--by <who>', 'who does it (default: the user of this machine)')
      .addHelpText(
        'after',
        '\nThe scheduler starts one job after the other, the oldest first, within the hours and the budget of the schedule. A tick has one job at most.\n\nExamples:\n  troupe schedule backfill nightly --from 2026-05-01 --to 2026-05-08 --dry-run\n  troupe schedule backfill nightly --from 2026-05-01',
      ),
    (context, [name], flags) => backfill(context, name!, flags),
  );
}

function dryRunCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('dry-run')
      .description('print what the scheduler would do now and at the next ticks, and change nothing')
      .argument('<name>', 'the schedule')
      .addHelpText('after', '\nExample:\n  troupe schedule dry-run nightly'),
    async ({ db, now }, [name], flags) => {
      const [{ findSchedule, runningJob, timesOf }, , { due, fireId, nextTimes }] = await loaded();
      const { definition, state } = await findSchedule(db, name!);
      const running = await runningJob(db, name!);
      const options = { name: name!, ...timesOf(state), now: now().getTime() };
      const decisions = state.paused ? [] : due(definition, { ...options, running }).decisions;
      const next = state.paused ? [] : nextTimes(definition, options, AHEAD);
      const [{ conditionNow }, { dayBudgetOver }, { badJobs, lastStart }] = await Promise.all([
        import('../../store/queue/schedules/condition.ts'),
        import('../../store/queue/schedules/day-budget.ts'),
        import('../../store/queue/schedules/scheduler.ts'),
      ]);
      const found =
        definition.when === undefined
          ? null
          : await conditionNow(db, definition.when, await lastStart(db, name!, state));
      const budget = await dayBudgetOver(db, name!, definition, options.now);
      const pauses = state.paused ? null : await badJobs(db, { name: name!, definition, state });
      if (flags.json) {
        const new_episodes = found?.new_episodes ?? null;
        const condition = found === null ? null : { holds: found.holds, detail: found.detail };
        printJson({
          name,
          paused: state.paused,
          running,
          new_episodes,
          condition,
          budget_used_up: budget,
          would_pause: pauses,
          decisions,
          next,
          job: definition.job,
        });
        return;
      }
      if (state.paused) print(`Nothing: it is paused by ${state.paused.by}: ${state.paused.reason}`);
      for (const one of decisions) {
        if (one.action === 'fire') print(`Now: request ${fireId(name!, one.instant)}`);
        else print(`Now: skip ${one.instant}${one.until === one.instant ? '' : ` to ${one.until}`}: ${one.detail}`);
      }
      if (running !== null)
        print(
          `Job ${running} has not ended; a tick before its end would ${definition.overlap === 'skip' ? 'be skipped' : 'queue another job'}.`,
        );
      if (found !== null)
        print(
          definition.when !== undefined && 'new_episodes' in definition.when
            ? `${found.new_episodes} new judged episodes; a tick starts a job from ${definition.when.new_episodes} on.`
            : `A tick ${found.holds ? 'starts' : 'does not start'} a job: ${found.detail}.`,
        );
      if (budget !== null) print(`A tick before the next midnight would be skipped: ${budget}`);
      if (pauses !== null) print(`The next tick would pause it: ${pauses}.`);
      if (!state.paused) print(timesText(definition, next));
      const spec = JSON.stringify(definition.job.spec);
      const shown =
        spec.length > SPEC_SHOWN ? `${spec.slice(0, SPEC_SHOWN)}… (${spec.length} characters; --json has all)` : spec;
      print(`Each requests a job of kind ${definition.job.kind}: ${shown}`);
    },
  );
}

function notifyCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('notify')
      .description('list who is notified of runs and schedules and what did not arrive, or send a test message')
      .option('--test <receiver>', 'send one test message to this receiver of the setting notify')
      .addHelpText('after', '\nExamples:\n  troupe schedule notify\n  troupe schedule notify --test ops'),
    async ({ db, now, config, database }, _, flags) => {
      const [{ findReceiver, readReceivers }, { receiverStates, sendTest }] = await Promise.all([
        import('../../api/notify/receivers.ts'),
        import('../../store/queue/notify/delivery.ts'),
      ]);
      const receivers = readReceivers(config.notify, process.env);
      if (flags.test !== undefined) {
        const { name, send } = findReceiver(receivers, String(flags.test));
        await sendTest({ name, send }, { project: database.project, now });
        answer(flags, { name, sent: true }, `Sent: a test message to ${name}`);
        return;
      }
      const states = new Map((await receiverStates(db)).map((state) => [state.name, state]));
      const listed = receivers.map(({ name, on }) => {
        const { sent = 0, last_sent_at = null, given_up = 0, failing = null } = states.get(name) ?? {};
        return { name, on, sent, last_sent_at, given_up, failing };
      });
      if (flags.json) printJson({ receivers: listed });
      else if (listed.length === 0) print('No receivers; add one to notify in troupe.yaml.');
      else
        print(
          table(
            ['receiver', 'on', 'sent', 'last', 'given up', 'failing'],
            listed.map((one) => [
              one.name,
              one.on.join(' '),
              one.sent,
              one.last_sent_at,
              one.given_up,
              one.failing && `${one.failing.error} (attempts: ${one.failing.attempts}, next: ${one.failing.next_at})`,
            ]),
          ),
        );
    },
  );
}

function removeCommand(schedule: Command): void {
  projectCommand(
    schedule
      .command('remove')
      .description('remove a schedule; its jobs and their history stay')
      .argument('<name>', 'the schedule')
      .option('--reason <text>', 'reason to record')
      .option('--by <who>', 'who does it (default: the user of this machine)')
      .addHelpText('after', '\nExample:\n  troupe schedule remove nightly --reason "replaced by weekly"'),
    async (context, [name], flags) => {
      const [{ removeSchedule }] = await loaded();
      const reason = flags.reason === undefined ? null : String(flags.reason);
      await removeSchedule(context, name!, { by: who(flags), reason });
      answer(flags, { name, removed: true }, `Removed: ${name}`);
    },
  );
}

async function backfill(context: Context, name: string, flags: Flags): Promise<number> {
  const { db, now } = context;
  const { backfillSchedule, endBackfill, findSchedule } = await import('../../store/queue/schedules/schedules.ts');
  if (flags.end) {
    const ended = await endBackfill(context, name, { by: who(flags) });
    answer(flags, { name, ended }, `Ended: the backfill of ${name}. Ticks left: ${ended}`);
    return EXIT.done;
  }
  if (flags.from === undefined) throw new TroupeError('usage', 'Missing --from TIME, where the backfill begins.');
  const [{ spanOf, ticksWithoutJob }, { eventsBefore, snapshotAt }] = await Promise.all([
    import('../../store/queue/schedules/backfill.ts'),
    import('../../store/datasets/as-of.ts'),
  ]);
  const at = now().getTime();
  const span = spanOf({ from: String(flags.from), to: flags.to as string | undefined }, at);
  if (!flags.dryRun) {
    const ticks = await backfillSchedule(context, name, span, { by: who(flags) });
    if (flags.json) printJson({ name, ticks });
    else if (ticks.length === 0) print('Nothing to do: every tick of this time has a job.');
    else print(`To run, one after the other: ${ticks.join(' ')}`);
    return EXIT.done;
  }
  const ticks: { tick: string; events: number }[] = [];
  for (const tick of await ticksWithoutJob(db, await findSchedule(db, name), span, at))
    ticks.push({ tick, events: eventsBefore(await snapshotAt(db, tick)) });
  if (flags.json) printJson({ name, ticks });
  else {
    if (ticks.length > 0)
      print(
        table(
          ['tick', 'events recorded by then'],
          ticks.map(({ tick, events }) => [tick, events]),
        ),
      );
    print(`Ticks without a job: ${ticks.length}. Nothing was started.`);
  }
  return EXIT.done;
}

const loaded = () =>
  Promise.all([
    import('../../store/queue/schedules/schedules.ts'),
    import('../../store/queue/schedules/definition.ts'),
    import('../../store/queue/schedules/due.ts'),
  ]);
