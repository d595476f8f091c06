/**
 * Every method by the file that holds it: a paper's, or what methods of no paper compute. A method that is not on this page cannot be named
 * by a recipe or on the command line. A file is loaded when one of its methods runs, so whoever only needs names loads none.
 */
import { got, TroupeError } from '../../../errors.ts';
import { nearest } from '../../../nearest.ts';
import type { Method } from './method.ts';

export const FILES = [
  { methods: ['aegis_reward', 'attribution_f1'], load: () => import('./aegis.ts') },
  { methods: ['progress_rate'], load: () => import('./agentboard.ts') },
  {
    methods: ['decisive_error', 'injected_label', 'agentracer_reward', 'agentracer_clip'],
    load: () => import('./agentracer.ts'),
  },
  { methods: ['normalise_answer'], load: () => import('./answer.ts') },
  { methods: ['apigen_mt_blueprint', 'apigen_mt_trajectory'], load: () => import('./apigen-mt.ts') },
  {
    methods: ['well_formed_filter', 'public_tests_filter', 'own_success_filter', 'majority_filter'],
    load: () => import('./candidate-filters.ts'),
  },
  {
    methods: ['pass_at_1', 'best_of_n', 'majority_of_n', 'verifier_precision', 'rejection_rate'],
    load: () => import('./candidates.ts'),
  },
  { methods: ['invert_dependencies', 'shapley'], load: () => import('./cdc-mas.ts') },
  { methods: ['comam_rewards'], load: () => import('./comam.ts') },
  { methods: ['cosigned_rewards', 'trust_update'], load: () => import('./cosigned.ts') },
  {
    methods: [
      'cure_code_reward',
      'cure_test_reward',
      'cure_advantage',
      'cure_balance',
      'cure_length_regularize',
      'cure_precision',
      'bon_select',
    ],
    load: () => import('./cure.ts'),
  },
  { methods: ['dapo_overlong'], load: () => import('./dapo.ts') },
  { methods: ['difficulty_band'], load: () => import('./difficulty-band.ts') },
  { methods: ['dover_progress', 'dover_verdict'], load: () => import('./dover.ts') },
  {
    methods: ['cosine_groups', 'causal_influence', 'restart_reward', 'mamr_step_advantage'],
    load: () => import('./dr-mamr.ts'),
  },
  {
    methods: ['drmas_advantage', 'multiagent_grpo_advantage', 'drmas_scale_ratio', 'floored_advantage'],
    load: () => import('./dr-mas.ts'),
  },
  { methods: ['draft_rl_reward', 'draft_rl_select'], load: () => import('./draft-rl.ts') },
  { methods: ['dylan_edge_weights', 'dylan_importance', 'dylan_consensus'], load: () => import('./dylan.ts') },
  { methods: ['essay_rewards'], load: () => import('./essay-rewards.ts') },
  { methods: ['failure_signs', 'failure_signs_with_reference'], load: () => import('./failure-signs.ts') },
  { methods: ['gae', 'masked_whiten'], load: () => import('./gae.ts') },
  { methods: ['grpo_advantage', 'rloo_advantage', 'trl_advantage'], load: () => import('./group-advantages.ts') },
  {
    methods: ['roc_tool_penalty', 'roc_format_penalty', 'roc_select', 'reject_equal_reward'],
    load: () => import('./grpo-roc.ts'),
  },
  {
    methods: [
      'critic_agrees',
      'consensus_filter',
      'format_filter',
      'boxed_answer',
      'correctness_filter',
      'm500_filter',
      'diversity_select',
    ],
    load: () => import('./m500.ts'),
  },
  { methods: ['magrpo_returns', 'magrpo_cross'], load: () => import('./magrpo.ts') },
  { methods: ['malt_values'], load: () => import('./malt.ts') },
  { methods: ['milestone_kpi'], load: () => import('./marble.ts') },
  { methods: ['marft_gae', 'marft_returns'], load: () => import('./marft.ts') },
  { methods: ['mars_turn_advantage'], load: () => import('./mars.ts') },
  { methods: ['marsrl_rewards'], load: () => import('./marsrl.ts') },
  { methods: ['marti_shaping', 'mars2_tree_shaping'], load: () => import('./marti.ts') },
  {
    methods: ['inter_consistency_select', 'intra_consistency_accept', 'inter_consistency_score', 'agreement_score'],
    load: () => import('./mas-gpt.ts'),
  },
  {
    methods: ['masprm_backprop', 'uct', 'masprm_target', 'masprm_tree_keep', 'masprm_path_score'],
    load: () => import('./masprm.ts'),
  },
  { methods: ['mast_distribution', 'cohen_kappa'], load: () => import('./mast.ts') },
  { methods: ['matpo_advantage', 'matpo_loss_scale'], load: () => import('./matpo.ts') },
  { methods: ['metaagentx_rewards', 'metaagentx_advantage'], load: () => import('./metaagent-x.ts') },
  { methods: ['token_f1', 'mmoa_rewards'], load: () => import('./mmoa-rag.ts') },
  { methods: ['mrag_select'], load: () => import('./mrag.ts') },
  {
    methods: [
      'at_grpo_advantage',
      'petting_mixed_reward',
      'petting_turn_reward',
      'petting_group_filter',
      'range_normalized_variance',
    ],
    load: () => import('./pettingllms.ts'),
  },
  { methods: ['rema_reward'], load: () => import('./rema.ts') },
  { methods: ['rolewise_sft_select'], load: () => import('./rolewise-sft.ts') },
  { methods: ['sirius_library'], load: () => import('./sirius.ts') },
  { methods: ['ifd', 'star_agents_score', 'star_agents_evolve'], load: () => import('./star-agents.ts') },
  {
    methods: ['unitymas_terminal_rewards', 'unitymas_math_rewards', 'unitymas_code_rewards', 'unitymas_search_rewards'],
    load: () => import('./unitymas-o.ts'),
  },
  { methods: ['who_when_accuracy'], load: () => import('./who-and-when.ts') },
] as const;

export type MethodName = (typeof FILES)[number]['methods'][number];
type Exports<Module> = Module extends unknown ? Module[keyof Module] : never;

/** The method of that name, with the types of its input, parameters and output. */
export type NamedMethod<Name extends MethodName> = Extract<
  Exports<Awaited<ReturnType<(typeof FILES)[number]['load']>>>,
  { readonly name: Name; readonly kind: string }
>;

const names: string[] = FILES.flatMap(({ methods }) => methods);
export const METHOD_NAMES: readonly string[] = names;

const own: Method[] = [];
/** Methods of the user's own files. */
export const OWN_METHODS: readonly Method[] = own;

/** Adds a user's own methods, whose names no other method has. */
export function addMethods(methods: readonly Method[]): void {
  own.push(...methods);
  names.push(...methods.map(({ name }) => name));
}

/** The methods of a loaded file. */
export const methodsIn = (file: (typeof FILES)[number], module: object): readonly Method[] =>
  Object.values(module).filter((one) => (file.methods as readonly unknown[]).includes(one?.name));

/** Loads the file of a method. @throws TroupeError `method_unknown`, with the nearest name where one is near */
export function loadMethod<Name extends MethodName>(name: Name): Promise<NamedMethod<Name>>;
export function loadMethod(name: string): Promise<Method>;
export async function loadMethod(name: string): Promise<unknown> {
  const mine = OWN_METHODS.find((method) => method.name === name);
  if (mine !== undefined) return mine;
  const file = FILES.find(({ methods }) => (methods as readonly string[]).includes(name));
  if (file === undefined) throw unknownMethod(name, METHOD_NAMES);
  return methodsIn(file, await file.load()).find((method) => method.name === name);
}

export function unknownMethod(name: string, known: readonly string[]): TroupeError {
  const near = nearest(name, known);
  const hint = near === null ? '`troupe method list` names them all.' : `Did you mean ${near}?`;
  return new TroupeError('method_unknown', `There is no method named ${got(name)}. ${hint}`, {
    field: 'method',
    expected: 'the name of a method in the catalogue',
    got: got(name),
    hint,
  });
}
