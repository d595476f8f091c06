// biome-ignore-all lint/suspicious/noApproximativeNumericConstant: results are written to six decimals, whatever constant they resemble.
/** Worked examples of the published methods: one input with data and parameters together, and what must come out, to 1e-6. */

export type Example = { readonly method: string; readonly input: unknown; readonly expected: unknown };

export const EXAMPLES: readonly Example[] = [
  { method: 'critic_agrees', input: { text: 'Your step 2 is fine. [Agree]' }, expected: true },
  {
    method: 'consensus_filter',
    input: {
      rounds: [
        [
          { agree: false, content: 'sign error' },
          { agree: true, content: '' },
        ],
        [
          { agree: true, content: '' },
          { agree: false, content: '' },
        ],
      ],
      max_critic_iterations: 3,
    },
    expected: { pass: true, round: 2 },
  },
  {
    method: 'format_filter',
    input: {
      messages: [
        { text: '<think>x</think> ok' },
        { text: '<think>y</think> so \\boxed{3}', needs_box: true },
        { text: 'no tags' },
      ],
    },
    expected: { pass: false, bad: [2] },
  },
  { method: 'boxed_answer', input: { text: 'first \\boxed{1} then \\boxed{\\frac{2}{3}}' }, expected: '\\frac{2}{3}' },
  { method: 'normalise_answer', input: { text: ' $ 42 $. ' }, expected: '42' },
  {
    method: 'correctness_filter',
    input: {
      pairs: [
        { answer: '$ 42 ', reference: '42' },
        { answer: '0.5', reference: '1/2' },
        { answer: '42', reference: '-42' },
        { answer: null, reference: '7' },
        { answer: '(C)', reference: 'C', choices: true },
      ],
    },
    expected: [true, true, false, false, true],
  },
  {
    method: 'm500_filter',
    input: {
      traces: [
        { id: 'a', interdisciplinary: true, answer_tokens: 1500, consensus: true, format: true, correct: true },
        { id: 'b', interdisciplinary: true, answer_tokens: 1024, consensus: true, format: true, correct: true },
        { id: 'c', interdisciplinary: true, answer_tokens: 2000, consensus: true, format: false, correct: true },
        { id: 'd', interdisciplinary: false, answer_tokens: 3000, consensus: true, format: true, correct: true },
      ],
      min_tokens: 1024,
      require_interdisciplinary: true,
    },
    expected: ['a'],
  },
  {
    method: 'diversity_select',
    input: {
      items: [
        { id: 1, category: 'bio', score: 3 },
        { id: 2, category: 'bio', score: 9 },
        { id: 3, category: 'math', score: 5 },
        { id: 4, category: 'phys', score: 1 },
      ],
      n: 3,
    },
    expected: [2, 3, 4],
  },
  {
    method: 'inter_consistency_select',
    input: {
      scores: [
        [1, 0, 1],
        [1, 1, 0],
        [0, 1, 1],
        [0, 1, 0],
      ],
      clusters: { g0: [0, 1], g1: [2, 3] },
    },
    expected: { g0: { mas: 0, total: 2.0, kept: [0, 1] }, g1: { mas: 1, total: 2.0, kept: [2, 3] } },
  },
  {
    method: 'intra_consistency_accept',
    input: { base_score: 1.0, refined_score: 1.0, executable: true },
    expected: true,
  },
  { method: 'agreement_score', input: { answers: ['7', '7', '9', null] }, expected: { score: 0.5, majority: '7' } },
  {
    method: 'inter_consistency_score',
    input: { cluster: ['x', 'x', 'x', 'y'], mas: ['m1', 'm1', 'm2', 'm3'] },
    expected: 0.75,
  },
  {
    method: 'reject_equal_reward',
    input: { group: ['p', 'p', 'q', 'q', 'r'], reward: [1, 1, 0, 1, 0] },
    expected: [2, 3],
  },
  { method: 'range_normalized_variance', input: { rewards: [0, 0, 1, 3] }, expected: 0.166667 },
  {
    method: 'petting_group_filter',
    input: {
      group: ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd'],
      reward: [0, 1, 1, 1, 0, 0, 0, 4],
      mode: 'std',
      filter_ratio: 0.5,
    },
    expected: [0, 1, 6, 7],
  },
  { method: 'roc_tool_penalty', input: { tool_responses: ['42', 'NameError: x', 'Error', 'ok'] }, expected: 0.5 },
  { method: 'roc_format_penalty', input: { open_tags: 3, close_tags: 3, closed_pairs: 3, turns: 4 }, expected: 0.5 },
  {
    method: 'roc_select',
    input: {
      rewards: [1, 0, 1, 1, 0, 1, 1, 1],
      penalties: [0.5, 0.9, 0.0, 0.25, 0.1, 1.0, 0.1, 0.6],
      n: 4,
      min_zero: 1,
      min_nonzero: 1,
    },
    expected: [2, 6, 3, 1],
  },
  {
    method: 'apigen_mt_blueprint',
    input: { format_ok: true, execution_ok: true, policy_ok: true, votes: [1, 1, 0] },
    expected: { accept: true, stage: 'committee' },
  },
  {
    method: 'apigen_mt_trajectory',
    input: {
      final_state: { order: 'cancelled' },
      gold_state: { order: 'cancelled' },
      gold_outputs: ['54.04'],
      agent_outputs: ['54.04', 'done'],
    },
    expected: true,
  },
  {
    method: 'sirius_library',
    input: {
      epsilon: 0,
      trajectories: [
        {
          id: 't1',
          reward: 1,
          steps: [
            { agent: 'phys', id: 's1' },
            { agent: 'math', id: 's2' },
          ],
        },
        {
          id: 't2',
          reward: 0,
          steps: [{ agent: 'phys', id: 's3' }],
          regenerated: { correct: true, steps: [{ agent: 'phys', id: 's3r' }] },
        },
        {
          id: 't3',
          reward: 0,
          steps: [{ agent: 'math', id: 's4' }],
          regenerated: { correct: false, steps: [{ agent: 'math', id: 's4r' }] },
        },
      ],
    },
    expected: { library: { phys: ['s1', 's3r'], math: ['s2'] }, augmented: ['t2'] },
  },
  {
    method: 'mrag_select',
    input: {
      trajectories: [
        { id: 1, query: 'q', reward: 0.4 },
        { id: 2, query: 'q', reward: 0.9 },
        { id: 3, query: 'z', reward: 0.2 },
      ],
      threshold: 0.5,
    },
    expected: [2],
  },
  {
    method: 'ifd',
    input: { cond_logprobs: [-1.0, -0.5, -0.3], uncond_logprobs: [-2.0, -1.0, -0.9] },
    expected: 0.496585,
  },
  {
    method: 'star_agents_score',
    input: { ifd_small: [0.9, 0.7, 0.8], ifd_large: [0.4, 0.5, 0.7], referee: ['tie', 'generated', 'generated'] },
    expected: { dual: [1.0, 0.4, 0.2], score: [0.5, 0.4, 0.2], pick: 0 },
  },
  {
    method: 'star_agents_evolve',
    input: { p: [0.25, 0.25, 0.25, 0.25], pair: 2, beta: 0.5, score: 0.8 },
    expected: [0.178571, 0.178571, 0.464286, 0.178571],
  },
  {
    method: 'progress_rate',
    input: {
      subgoals_done: [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 0, 0],
        [1, 1, 0, 1],
      ],
    },
    expected: [0.0, 0.25, 0.25, 0.75],
  },
  {
    method: 'milestone_kpi',
    input: { milestones: 4, per_agent: [2, 1, 3] },
    expected: { per_agent: [0.5, 0.25, 0.75], overall: 0.5 },
  },
  {
    method: 'rolewise_sft_select',
    input: {
      trajectories: [
        {
          success: true,
          steps: [
            { role: 'planner', id: 'a' },
            { role: 'coder', id: 'b' },
          ],
        },
        { success: false, steps: [{ role: 'planner', id: 'c' }] },
      ],
    },
    expected: { planner: ['a'], coder: ['b'] },
  },
  {
    method: 'cure_code_reward',
    input: {
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    },
    expected: [1.224745, 0.0, -1.224745],
  },
  {
    method: 'cure_test_reward',
    input: {
      generated_pass: [
        [1, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 1, 1, 0],
      ],
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    },
    expected: { raw: [0.0, 0.5, -0.5, 0.5], reward: [-0.301511, 0.904534, -1.507557, 0.904534] },
  },
  {
    // The two rewards beside each other, on the examples of both.
    method: 'cure_advantage',
    input: {
      generated_pass: [
        [1, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 1, 1, 0],
      ],
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    },
    expected: {
      programs: [1.224745, 0.0, -1.224745],
      tests: [-0.301511, 0.904534, -1.507557, 0.904534],
    },
  },
  {
    // 1 + 0.2 · 2 · (0.875 − 0.5) + 0.1 = 1.25; −1 + 0.2 · 2 · (0.25 − 0.5) − 0.1 = −1.2; six words in a step are none in form.
    method: 'draft_rl_reward',
    input: {
      drafts: [
        { text: 'STEP 1: two plus three\nFINAL: 5', correct: true, peers: [0.75, 1] },
        { text: 'It is 6.', correct: false, peers: [0.25] },
        { text: '1. we add two and three now\nANSWER: 5', correct: true, peers: [0.5] },
      ],
    },
    expected: [1.25, -1.2, 0.9],
  },
  {
    // A draft in form comes before one that scores more; of two agents without the form the better one is first.
    method: 'draft_rl_select',
    input: {
      drafts: [
        { query: 'q', agent: 'a', text: 'It is 5.', score: 0.9 },
        { query: 'q', agent: 'a', text: '1. add them\nFINAL: 5', score: 0.4 },
        { query: 'q', agent: 'b', text: '1. add both\nFINAL: 6', score: 0.6 },
        { query: 'q', agent: 'b', text: '2) add both\nfinal: 5', score: 0.6 },
        { query: 'r', agent: 'a', text: 'five', score: 0.1 },
        { query: 'r', agent: 'a', text: 'FINAL: 5', score: 0.2 },
      ],
    },
    expected: { local: [1, 2, 5], global: [2, 5] },
  },
  {
    method: 'cure_balance',
    input: { x: [2.0, 1.0, -1.0, -0.5] },
    expected: [1.264911, 0.632456, -1.264911, -0.632456],
  },
  {
    method: 'cure_length_regularize',
    input: { reward: [0.9, 0.4, -0.7, -0.6], length: [2000, 4000, 1000, 9000], max_len: 8000, min_len: 1000 },
    expected: [1.732051, -0.57735, -0.57735, -0.57735],
  },
  {
    method: 'bon_select',
    input: {
      generated_pass: [
        [1, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 1, 1, 0],
      ],
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
    },
    expected: { index: 0, generated_passes: 3, gt_all: true, gt_rate: 1.0 },
  },
  {
    method: 'essay_rewards',
    input: {
      gt_pass: [
        [1, 1],
        [1, 0],
        [0, 0],
      ],
      generated_pass: [
        [1, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 1, 1, 0],
      ],
      lambda_ver: 0.5,
      lambda_len: 0.001,
      length: [100, 200, 50, 400],
    },
    expected: { R_C: [1.375, 0.75, 0.375], R_V: [0.233333, 0.466667, 0.283333, 0.266667] },
  },
  { method: 'token_f1', input: { pred: 'new york city', gold: 'york new' }, expected: 0.8 },
  {
    method: 'mmoa_rewards',
    input: {
      f1: 0.8,
      subquestions: ['who', 'when', 'where', 'why', 'how'],
      selector: 'Document0,Document3',
      k: 10,
      answer: 'paris',
    },
    expected: { rewriter: 0.3, selector: 0.8, generator: 0.8 },
  },
  {
    method: 'marsrl_rewards',
    input: {
      steps: [
        { role: 'solver', correct: true },
        { role: 'verifier', flags_error: true },
        { role: 'corrector', correct: true },
        { role: 'verifier', flags_error: false },
      ],
    },
    expected: [1, 0, 1, 1],
  },
  {
    method: 'rema_reward',
    input: {
      score: 1.0,
      mask_unfinished: true,
      finished: { 'meta-thinking': true, reasoning: true },
      max_turns: 30,
      boxed: true,
    },
    expected: { 'meta-thinking': 1.0, reasoning: 1.0 },
  },
  { method: 'petting_mixed_reward', input: { alpha: 1.0, team: 1.0, local: [0.5, 0.0] }, expected: [1.5, 1.0] },
  {
    method: 'petting_turn_reward',
    input: { mode: 'turn_weighted', final: 1.0, turns: [0, 1, 2, 3], max_turns: 4 },
    expected: [0.25, 0.5, 0.75, 1.0],
  },
  {
    method: 'unitymas_code_rewards',
    input: { pass_rate: [0.2, 0.5, 0.4], reflections: 3 },
    expected: { planner_coder: [0.2, 0.3, -0.1], reflection: [0.3, -0.1, 0.0] },
  },
  {
    method: 'unitymas_search_rewards',
    input: { plan_f1: 0.1, answer_f1: [0.2, 0.6, 0.5] },
    expected: {
      plan: 0.1,
      answer_0: 0.2,
      turns: [
        { search_summary_update: 0.4, answer: 0.6 },
        { search_summary_update: -0.1, answer: 0.5 },
      ],
    },
  },
  {
    method: 'marti_shaping',
    input: { name: 'quality_with_outcome', rewards: [1, 0, 1], alpha: 0.5, beta: 0.5 },
    expected: [1.5, 0.5, 1.75],
  },
  {
    method: 'mars2_tree_shaping',
    input: { rewards: [0.4, 0.8, 0.2, 1.0], parent: [-1, 0, 0, 1], gamma: 0.3, lam: 0.5 },
    expected: [0.4, 0.95, 0.08, 1.015],
  },
  { method: 'dapo_overlong', input: { length: 18000, max_len: 20480, buffer: 4096, factor: 1.0 }, expected: -0.394531 },
  {
    method: 'metaagentx_rewards',
    input: {
      exec_rewards: [
        [1, 0],
        [1, 1],
      ],
    },
    expected: {
      designer: [0.5, 1.0],
      executor: [
        [1, 0],
        [1, 1],
      ],
    },
  },
  {
    method: 'grpo_advantage',
    input: { group: ['q', 'q', 'q', 'q', 'z'], reward: [1, 0, 0, 1, 0.7] },
    expected: [0.866024, -0.866024, -0.866024, 0.866024, 0.699999],
  },
  {
    method: 'trl_advantage',
    input: { group: [0, 0, 0, 0], reward: [1, 0, 0, 0], scale: 'group' },
    expected: [1.4997, -0.4999, -0.4999, -0.4999],
  },
  { method: 'rloo_advantage', input: { group: ['a', 'a', 'a'], reward: [1, 0, 0.5] }, expected: [0.75, -0.75, 0.0] },
  {
    method: 'drmas_advantage',
    input: {
      steps: [
        { query: 'q', traj: 't1', agent: 'solver', reward: 1 },
        { query: 'q', traj: 't1', agent: 'verifier', reward: 0.5 },
        { query: 'q', traj: 't2', agent: 'solver', reward: 0 },
        { query: 'q', traj: 't2', agent: 'verifier', reward: 0.5 },
        { query: 'q', traj: 't3', agent: 'solver', reward: 1 },
        { query: 'q', traj: 't3', agent: 'verifier', reward: -0.5 },
      ],
    },
    expected: [0.577349, 0.577349, -1.154699, 0.577349, 0.577349, -1.154699],
  },
  {
    method: 'multiagent_grpo_advantage',
    input: {
      steps: [
        { query: 'q', traj: 't1', agent: 'solver', reward: 1 },
        { query: 'q', traj: 't1', agent: 'verifier', reward: 0.5 },
        { query: 'q', traj: 't2', agent: 'solver', reward: 0 },
        { query: 'q', traj: 't2', agent: 'verifier', reward: 0.5 },
        { query: 'q', traj: 't3', agent: 'solver', reward: 1 },
        { query: 'q', traj: 't3', agent: 'verifier', reward: -0.5 },
      ],
    },
    expected: [1.154697, 1.154697, -0.577348, -0.577348, -0.577348, -0.577348],
  },
  {
    method: 'at_grpo_advantage',
    input: {
      steps: [
        { env: 0, turn: 0, agent: 'c', reward: 1 },
        { env: 0, turn: 0, agent: 'c', reward: 0 },
        { env: 0, turn: 0, agent: 't', reward: 0.5 },
        { env: 0, turn: 0, agent: 't', reward: 0.5 },
        { env: 0, turn: 1, agent: 'c', reward: 2 },
        { env: 0, turn: 1, agent: 'c', reward: 1 },
      ],
    },
    expected: [0.707106, -0.707106, 0.0, 0.0, 0.707106, -0.707106],
  },
  {
    method: 'magrpo_returns',
    input: { gamma: 0.9, tree: { rewards: [1, 0], children: [{ rewards: [1, 0] }, { rewards: [0.5, 0.5] }] } },
    expected: [
      { node: '0', returns: [1.45, 0.45], advantages: [0.5, -0.5] },
      { node: '0.0', returns: [1.0, 0.0], advantages: [0.5, -0.5] },
      { node: '0.1', returns: [0.5, 0.5], advantages: [0.0, 0.0] },
    ],
  },
  {
    method: 'magrpo_cross',
    input: { k: 2, agents: 2, rewards: [1, 0, 0, 0] },
    expected: [
      { sums: [1.0, 0.0], advantages: [0.5, -0.5] },
      { sums: [1.0, 0.0], advantages: [0.5, -0.5] },
    ],
  },
  {
    method: 'mars_turn_advantage',
    input: {
      gamma: 1.0,
      advantage_norm: null,
      trajectories: [
        { id: 'a0', player: 0, turn_rewards: [0, 1] },
        { id: 'a1', player: 1, turn_rewards: [0, -1] },
        { id: 'b0', player: 0, turn_rewards: [0, 0] },
        { id: 'b1', player: 1, turn_rewards: [0, 1] },
      ],
    },
    expected: { a0: [0.5, 0.75], b0: [-0.5, -0.25], a1: [-1.0, -1.0], b1: [1.0, 1.0] },
  },
  {
    method: 'malt_values',
    input: {
      refinements: [
        [
          [1, 1, 0],
          [0, 0, 0],
          [1, 1, 1],
        ],
        [
          [0, 0, 0],
          [1, 0, 0],
          [0, 1, 0],
        ],
        [
          [1, 1, 1],
          [1, 1, 0],
          [1, 0, 1],
        ],
      ],
    },
    expected: {
      V_verifier: [
        [0.666667, 0.0, 1.0],
        [0.0, 0.333333, 0.333333],
        [1.0, 0.666667, 0.666667],
      ],
      V_generator: [0.555556, 0.222222, 0.777778],
      label_verifier: [
        [true, false, true],
        [false, false, false],
        [true, true, true],
      ],
      label_generator: [true, false, true],
      pairs_generator: [
        [0, 1],
        [2, 1],
      ],
      pairs_verifier: [
        [
          [0, 1],
          [2, 1],
        ],
        [],
        [],
      ],
      n_pairs_refiner: 10,
    },
  },
  {
    method: 'matpo_advantage',
    input: {
      main: [
        { id: 'm1', query: 'q', reward: 1 },
        { id: 'm2', query: 'q', reward: 0 },
      ],
      workers: [{ parent: 'm1' }, { parent: 'm1' }, { parent: 'm2' }],
    },
    expected: { main: [0.707106, -0.707106], worker: [0.707106, 0.707106, -0.707106] },
  },
  { method: 'matpo_loss_scale', input: { loss: 0.3, batch_size: 12, num_main: 4 }, expected: 0.9 },
  {
    method: 'comam_rewards',
    input: { global: [1, 0, 1, 0], local: { extract: [0.9, 0.1, 0.8, 0.2], retrieve: [0.1, 0.9, 0.2, 0.8] } },
    expected: {
      ndcg: { extract: 1.0, retrieve: 0.570642 },
      weight: { extract: 0.636682, retrieve: 0.363318 },
      reward: { extract: [1.536682, 0.1, 1.436682, 0.2], retrieve: [0.463318, 0.9, 0.563318, 0.8] },
    },
  },
  {
    method: 'cosine_groups',
    input: {
      embeddings: [
        [1, 0],
        [0.95, 0.1],
        [0, 1],
      ],
      threshold: 0.9,
    },
    expected: [0, 0, 1],
  },
  {
    method: 'causal_influence',
    input: { cluster: [0, 0, 1, 0], delta: [0.4, 0.2, -0.1, 0.0] },
    expected: [0.2, 0.2, -0.1, 0.2],
  },
  {
    method: 'restart_reward',
    input: { correct: true, logp_without_history: -2.0, logp_with_history: -3.0 },
    expected: 1,
  },
  {
    method: 'mamr_step_advantage',
    input: { outcome: [1, 1, -1, -1], influence: [0.3, 0.1, 0.1, -0.1], restart: [0, 1, 0, -1], alpha: 0.1, beta: 0.1 },
    expected: [0.988498, 0.988499, -0.866025, -1.110973],
  },
  {
    method: 'marft_gae',
    input: {
      gamma: 0.99,
      lambda: 0.95,
      rewards: [
        [0, 0],
        [0, 1],
      ],
      values: [
        [0.2, 0.3],
        [0.4, 0.5],
      ],
      alive: [1, 0],
      bootstrap: 0.0,
    },
    expected: {
      advantages: [
        [0.687274, 0.627618],
        [0.56525, 0.5],
      ],
      returns: [
        [0.887274, 0.927618],
        [0.96525, 1.0],
      ],
    },
  },
  {
    method: 'marft_returns',
    input: {
      gamma: 0.99,
      lambda: 0.95,
      rewards: [
        [0, 0],
        [0, 1],
      ],
      values: [
        [0.2, 0.3],
        [0.4, 0.5],
      ],
      alive: [1, 0],
      bootstrap: 0.0,
    },
    expected: [
      [0.887274, 0.927618],
      [0.96525, 1.0],
    ],
  },
  {
    method: 'gae',
    input: { gamma: 1.0, lambda: 0.95, rewards: [0, 0, 0, 1], values: [0.1, 0.2, 0.9, 0.5], mask: [1, 1, 0, 1] },
    expected: { advantages: [0.83625, 0.775, 0.5, 0.5], returns: [0.93625, 0.975, 1.4, 1.0] },
  },
  { method: 'masked_whiten', input: { values: [1, 2, 3, 100], mask: [1, 1, 1, 0] }, expected: [-1.0, 0.0, 1.0, 0.0] },
  {
    method: 'metaagentx_advantage',
    input: {
      exec_rewards: [
        [1, 0],
        [1, 1],
        [0, 0],
      ],
      executor_group: null,
    },
    expected: {
      designer: [0.0, 0.999998, -0.999998],
      executor: [0.912869, -0.912869, 0.912869, 0.912869, -0.912869, -0.912869],
    },
  },
  {
    method: 'masprm_backprop',
    input: {
      rollouts: [
        { path: ['root', 'a', 'a1'], correct: true },
        { path: ['root', 'a', 'a2'], correct: false },
        { path: ['root', 'b', 'b1'], correct: true },
        { path: ['root', 'a', 'a1'], correct: true },
      ],
    },
    expected: {
      root: { visits: 4, q: 0.5 },
      a: { visits: 3, q: 0.333333 },
      a1: { visits: 2, q: 1.0 },
      a2: { visits: 1, q: -1.0 },
      b: { visits: 1, q: 1.0 },
      b1: { visits: 1, q: 1.0 },
    },
  },
  { method: 'uct', input: { q: 0.25, parent_visits: 10, child_visits: 4, c: 2.0 }, expected: 1.767427 },
  { method: 'masprm_tree_keep', input: { root_q: -0.7 }, expected: true },
  { method: 'masprm_target', input: { q: 0.5 }, expected: 0.549306 },
  { method: 'masprm_path_score', input: { values: [0.6, 0.2, -0.5] }, expected: 0.12 },
  { method: 'dylan_edge_weights', input: { ratings: [5, 3, 0], n_peers: 3 }, expected: [0.625, 0.375, 0.0] },
  {
    method: 'dylan_importance',
    input: {
      rounds: [
        { A: { active: true, agrees: false }, B: { active: true, agrees: false }, C: { active: true, agrees: false } },
        { A: { active: true, agrees: false }, B: { active: true, agrees: false }, C: { active: false, agrees: false } },
        { A: { active: true, agrees: true }, B: { active: true, agrees: false }, C: { active: false, agrees: false } },
      ],
      edges: [
        { A: { A: 0.5, B: 0.25 }, B: { A: 0.25, B: 0.5 }, C: { A: 0.25, B: 0.25 } },
        { A: { A: 0.6, B: 0.4 }, B: { A: 0.4, B: 0.6 } },
      ],
    },
    expected: {
      per_round: [
        { A: 0.4, B: 0.35, C: 0.25 },
        { A: 0.6, B: 0.4, C: 0.0 },
        { A: 1.0, B: 0.0, C: 0.0 },
      ],
      total: { A: 2.0, B: 0.75, C: 0.25 },
    },
  },
  { method: 'dylan_consensus', input: { answers: ['a', 'a', 'a'], n: 4 }, expected: true },
  {
    method: 'decisive_error',
    input: {
      outcome: 0,
      replays: [
        { step: 5, agent: 'coder', fixed: 1 },
        { step: 2, agent: 'web', fixed: 1 },
        { step: 0, agent: 'plan', fixed: 0 },
      ],
    },
    expected: { agent: 'web', step: 2 },
  },
  {
    method: 'injected_label',
    input: { base_outcome: 1, injected_outcome: 0, agent: 'coder', step: 3 },
    expected: { agent: 'coder', step: 3 },
  },
  {
    method: 'agentracer_reward',
    input: { format_ok: true, pred_step: 4, true_step: 5, pred_agent: 'a', true_agent: 'a', lambda: 0.5, sigma: 1.0 },
    expected: 0.803265,
  },
  { method: 'agentracer_clip', input: { b0: 0.3, step: 50, total: 100 }, expected: 0.15 },
  {
    method: 'who_when_accuracy',
    input: {
      cases: [
        { pred_agent: 'a', true_agent: 'a', pred_step: 3, true_step: 4 },
        { pred_agent: 'b', true_agent: 'b', pred_step: 1, true_step: 1 },
      ],
    },
    expected: { agent: 1.0, step: 0.5 },
  },
  {
    method: 'aegis_reward',
    input: {
      malformed: false,
      gold: [
        ['s', 'FM-1.1'],
        ['v', 'FM-3.3'],
      ],
      pred: [
        ['s', 'FM-1.1'],
        ['v', 'FM-2.3'],
        ['w', 'FM-2.1'],
      ],
      coef: {
        pair: 1.0,
        agent: 0.5,
        error: 0.3,
        false_positive: 0.2,
        dup: 0.2,
        quant: 0.2,
        bonus: 0.1,
        malformed: -1.0,
      },
    },
    expected: 0.666667,
  },
  {
    method: 'attribution_f1',
    input: {
      cases: [
        { gold: [['s', 'FM-1.1']], pred: [['s', 'FM-1.1']] },
        { gold: [['v', 'FM-3.3']], pred: [['v', 'FM-2.3']] },
      ],
    },
    expected: {
      pair: { micro: 0.5, macro: 0.333333 },
      agent: { micro: 1.0, macro: 1.0 },
      error: { micro: 0.5, macro: 0.333333 },
    },
  },
  {
    method: 'invert_dependencies',
    input: {
      edges: [
        ['plan', 'code'],
        ['code', 'test'],
      ],
    },
    expected: [
      ['code', 'plan'],
      ['test', 'code'],
    ],
  },
  {
    method: 'shapley',
    input: { agents: ['p', 'c'], values: { '': 0, p: 0.2, c: 0.5, 'c+p': 1.0 } },
    expected: { phi: { p: 0.35, c: 0.65 }, blame: { p: 0.35, c: 0.65 } },
  },
  { method: 'dover_progress', input: { before: [1, 0, 0, 0, 0], after: [1, 1, 0, 1, 0] }, expected: 0.4 },
  {
    method: 'dover_verdict',
    input: {
      runs: [
        { success: false, fulfilled: true, progress: 0.2 },
        { success: false, fulfilled: true, progress: 0.4 },
        { success: false, fulfilled: false, progress: 0.0 },
      ],
    },
    expected: 'partially_validated',
  },
  {
    method: 'mast_distribution',
    input: { traces: [['1.3', '2.6'], ['1.3', '1.3', '3.2'], []] },
    expected: { modes: { '1.3': 2, '2.6': 1, '3.2': 1 }, categories: { FC1: 0.5, FC2: 0.25, FC3: 0.25 } },
  },
  { method: 'cohen_kappa', input: { a: [1, 1, 0, 0, 1], b: [1, 0, 0, 0, 1] }, expected: 0.615385 },
];
