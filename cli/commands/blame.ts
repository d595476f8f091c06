/** Failure attribution: list it, evaluate it against labels, and ask a judge model for it. */
import { randomUUID } from 'node:crypto';
import { type Command, Option } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { query, rowsOf, sql } from '../../store/db/query.ts';
import {
  ANNOTATIONS,
  type AnnotationResult,
  annotateHandler,
  annotateSpec,
} from '../../store/evaluate/attribution/annotate.ts';
import {
  evaluateAttributions,
  evaluateModes,
  GROUPINGS,
  type Grouping,
} from '../../store/evaluate/attribution/evaluate.ts';
import type { Match } from '../../store/evaluate/attribution/score.ts';
import { requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { annotatedText, modesText, scoresText } from '../blame-text.ts';
import { type Flags, projectCommand, untilInterrupted, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { answer, printJson, say, table } from '../output.ts';
import { chatEndpoint, checkedEndpoint } from '../training/chat-endpoint.ts';
import { pause } from '../waiting.ts';

export function addTo(program: Command): void {
  const blame = program
    .command('blame')
    .addHelpText('after', '\nExamples:\n  troupe blame list\n  troupe blame evaluate');
  listCommand(blame);
  evaluateCommand(blame);
  annotateCommand(blame);
}

function listCommand(blame: Command): void {
  projectCommand(
    blame
      .command('list')
      .description('list the attributions of methods and annotators, by episode')
      .option('--method <name>', 'only attributions by this method')
      .option('--episode <id>', 'only attributions of this episode')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe judge --methods failure_signs\n  troupe blame list --method failure_signs',
      ),
    async ({ db, catchUp }, _, flags) => {
      await catchUp();
      const rows = await rowsOf(db, listed(flags as { episode?: string; method?: string }));
      answer(flags, { blames: rows }, () =>
        table(
          ['episode', 'author', 'rank', 'agent', 'entry', 'step', 'value', 'reason'],
          rows.map((r) => [r.episode_id, r.says, r.rank, r.agent_id, r.entry, r.step_id, r.value, r.reason]),
        ),
      );
    },
  );
}

function evaluateCommand(blame: Command): void {
  projectCommand(
    blame
      .command('evaluate')
      .description('measure how often attributions name the right agent and entry, against the labels of annotators')
      .option('--method <name>', 'only attributions by this method')
      .option('--annotator <name>', 'only attributions by this annotator')
      .option(
        '--gold <annotator>',
        'annotator whose labels are the ground truth (default: every label not given by a model)',
      )
      .addOption(
        new Option('--by <what>', 'grouping of the results, shown beside the total')
          .choices([...GROUPINGS])
          .default('origin'),
      )
      .addOption(
        new Option('--match <how>', 'contains: the true value is part of the predicted one, as in the published script')
          .choices(['exact', 'contains'])
          .default('exact'),
      )
      .option(
        '--cross-validate <folds>',
        'refit failure_signs on each fold and score it on held-out episodes',
        wholeNumber('cross-validate'),
      )
      .addOption(
        new Option('--taxonomy <name>', 'show failure modes and agreement of annotators instead').choices(['mast']),
      )
      .addHelpText(
        'after',
        '\nExamples:\n  troupe blame evaluate --by coordination\n  troupe blame evaluate --cross-validate 10\n  troupe blame evaluate --taxonomy mast --json',
      ),
    async ({ db, catchUp }, _, flags) => {
      const folds = flags.crossValidate as number | undefined;
      if (folds !== undefined && folds < 2)
        throw new TroupeError('usage', '--cross-validate should be 2 or more folds.');
      await catchUp();
      if (flags.taxonomy === 'mast') {
        const modes = await evaluateModes(db);
        answer(flags, modes, modesText(modes));
        return;
      }
      const report = await evaluateAttributions(db, {
        method: text(flags.method),
        annotator: text(flags.annotator),
        gold: text(flags.gold),
        by: flags.by as Grouping,
        match: flags.match as Match,
        crossValidate: folds ?? null,
      });
      answer(flags, report, scoresText(report));
    },
  );
}

function annotateCommand(blame: Command): void {
  projectCommand(
    blame
      .command('annotate')
      .description('ask a judge model about each failed episode once, and record its answers')
      .requiredOption('--model <name>', 'name of the model at the endpoint')
      .option('--endpoint <url>', 'OpenAI-compatible base URL (default: the gateway of this project)')
      .option('--key-env <name>', 'environment variable that holds the API key of the endpoint')
      .addOption(new Option('--method <name>', 'prompt to use').choices([...ANNOTATIONS]).default('who-and-when'))
      .option('--episode <id...>', 'only these episodes (default: all failed ones)')
      .option('--with-reference', 'show the ground truth to the model')
      .option('--max-calls <n>', 'stop after this many requests', wholeNumber('max-calls'))
      .option('--max-tokens <n>', 'stop after this many tokens', wholeNumber('max-tokens'))
      .option('--conversation-tokens <n>', 'truncate longer conversations', wholeNumber('conversation-tokens'))
      .option('--concurrency <n>', 'episodes in flight at once', wholeNumber('concurrency'))
      .addHelpText(
        'after',
        '\nAnswers are recorded and never requested twice: rerun the command to go on where it stopped.\n' +
          '\nExamples:\n  troupe blame annotate --model policy:judge --max-calls 200\n  troupe blame annotate --model gpt-x --endpoint https://models.example/v1 --key-env JUDGE_KEY --method mast',
      ),
    annotate,
  );
}

async function annotate(context: Context, _: readonly string[], flags: Flags): Promise<number> {
  const { db, log, now, config, catchUp } = context;
  const endpoint = checkedEndpoint(text(flags.endpoint) ?? `http://${config.host}:${config.port}/v1`);
  const spec = annotateSpec({
    model: String(flags.model),
    method: String(flags.method),
    endpoint,
    key_env: text(flags.keyEnv),
    ...(flags.episode ? { episodes: flags.episode } : {}),
    with_reference: flags.withReference === true,
    max_calls: flags.maxCalls ?? null,
    max_tokens: flags.maxTokens ?? null,
    ...(flags.conversationTokens === undefined ? {} : { conversation_tokens: flags.conversationTokens }),
    ...(flags.concurrency === undefined ? {} : { concurrency: flags.concurrency }),
  });
  // A missing key is reported before anything is recorded.
  chatEndpoint({ ...spec, key_env: spec.key_env ?? null }, process.env);
  const interrupted = untilInterrupted();
  const jobId = `annotate-${randomUUID()}`;
  await requestJob({ db, log, now }, { job_id: jobId, kind: 'annotate', spec });
  const done = new AbortController();
  const handler = annotateHandler(
    { db, log, now },
    {
      askOf: (asked) => chatEndpoint(asked, process.env),
      wait: pause,
      signal: interrupted,
      caughtUp: async () => void (await catchUp()),
    },
  );
  const working = runJobs(
    { db, log, now },
    { worker: `blame-${process.pid}`, handlers: { annotate: handler }, signal: done.signal, pollMs: 50 },
  );
  let annotated: AnnotationResult;
  try {
    annotated = (await waitForJob(db, jobId, { timeoutMs: LONGEST_JOB_MS })) as AnnotationResult;
  } finally {
    done.abort();
    await working;
  }
  await catchUp();
  if (flags.json) printJson({ job_id: jobId, ...annotated });
  else say(annotatedText(annotated));
  if (annotated.stopped === 'interrupted') return EXIT.interrupted;
  return annotated.failed > 0 || annotated.stopped?.startsWith('endpoint_') ? EXIT.unreachable : EXIT.done;
}

const LONGEST_JOB_MS = 7 * 24 * 3600 * 1000;

const text = (flag: unknown): string | null => (typeof flag === 'string' ? flag : null);

/** Blames of methods and, where no method is asked for, the labels of people and models. */
function listed({ episode, method }: { readonly episode?: string; readonly method?: string }) {
  const methods = query
    .selectFrom('traj.blames as b')
    .select(['b.episode_id', 'b.method as says', 'b.rank', 'b.agent_id', 'b.entry', 'b.step_id', 'b.value', 'b.reason'])
    .$if(episode !== undefined, (all) => all.where('b.episode_id', '=', episode!))
    .$if(method !== undefined, (all) => all.where('b.method', '=', method!));
  const feedback = query
    .selectFrom('traj.feedback as f')
    .select([
      'f.episode_id',
      sql<string | null>`coalesce(f.annotator, f.by, '(nobody)')`.as('says'),
      sql<number | null>`0`.as('rank'),
      sql<string | null>`case when f.target_kind = 'agent' then f.target_id end`.as('agent_id'),
      'f.entry',
      sql<string | null>`case when f.target_kind = 'step' then f.target_id end`.as('step_id'),
      'f.confidence as value',
      sql<string | null>`coalesce(f.explanation, f.label)`.as('reason'),
    ])
    .where('f.kind', '=', 'failure')
    .$if(episode !== undefined, (all) => all.where('f.episode_id', '=', episode!));
  return query
    .selectFrom((method === undefined ? methods.unionAll(feedback) : methods).as('found'))
    .selectAll()
    .orderBy('episode_id')
    .orderBy('says')
    .orderBy('rank');
}
